"""A long step does not look like a hang."""

from __future__ import annotations

import io
import re
import time
from types import SimpleNamespace
from typing import Any

from jsa.training.progress import Heartbeat, Lines


def standing(epoch: int, step: int) -> Any:
    return SimpleNamespace(progress=SimpleNamespace(epoch=epoch, step=step))


def test_a_heart_beats_until_its_end() -> None:
    beats: list[float] = []
    heart = Heartbeat(lambda: beats.append(time.monotonic()), 0.02)
    time.sleep(0.5)
    heart.end()
    assert len(beats) >= 3
    count = len(beats)
    time.sleep(0.1)
    assert len(beats) == count


def test_a_long_epoch_says_where_it_is() -> None:
    for patience, told in ((0.05, True), (60.0, False)):
        stream = io.StringIO()
        lines = Lines(3, 30, stream, patience)
        lines.start(standing(2, 10))
        time.sleep(0.3)
        lines.step(standing(2, 11))
        lines.validating(5, 20)
        time.sleep(0.3)
        lines.end()
        assert bool(re.search(r"^epoch 2/3, 10 of 30 steps done after \d+s$", stream.getvalue(), re.MULTILINE)) == told
        assert ("11 of 30 steps done, validating 25 % after" in stream.getvalue()) == told
