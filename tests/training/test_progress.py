"""A long step does not look like a hang."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

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


NOTEBOOK = """
import sys
from types import ModuleType, SimpleNamespace

class Widget(SimpleNamespace):
    def __init__(self, *given, **named):
        parts = {"layout": SimpleNamespace(), "style": SimpleNamespace()}
        super().__init__(**{"value": 0, "bar_style": "", **parts, **named})

class HBox(Widget):
    def close(self):
        pass

def module(name, **content):
    made = sys.modules[name] = ModuleType(name)
    vars(made).update(content)

module("ipykernel.zmqshell")
module("IPython", get_ipython=lambda: None)
module("IPython.display", display=lambda widget: print("shown"))
"""
WIDGETS = """
module("ipywidgets", HTML=Widget, FloatProgress=Widget, HBox=HBox)
"""
BARS = """
from jsa.training.progress import display, evaluation_progress

def state(step):
    return SimpleNamespace(progress=SimpleNamespace(epoch=2, step=step))

bar = display(3, 30)
bar.start(state(10))
for step in range(11, 21):
    bar.step(state(step))
bar.validating(5, 20)
bar.epoch(state(20), {"stage": 2, "valid_nll": 2.5})
bar.note("a note")
bar.end()
with evaluation_progress(5, "rows") as progress:
    progress(5)
if hasattr(bar, "_bar"):
    _, middle, right = bar._bar.container.children
    print(middle.value, middle.max, right.value)
"""


@pytest.mark.parametrize(
    ("before", "out", "error"),
    [
        (
            NOTEBOOK + WIDGETS,
            r"shown\nshown\n20 30 .*20/30\s.*stage\s2,\svalid\sNLL\s2.50.*\n",
            r"note: a note\n",
        ),
        (NOTEBOOK, "", r"epoch 2/3, stage 2, valid NLL 2.50, \w+ left\nnote: a note\n"),
        ("from types import SimpleNamespace", "", r"epoch 2/3, stage 2, valid NLL 2.50, \w+ left\nnote: a note\n"),
    ],
    ids=["widgets", "no-widgets", "no-notebook"],
)
def test_a_notebook_has_bars_if_it_can_show_them(before: str, out: str, error: str, tmp_path: Path) -> None:
    # Every warning is an error.
    program = [sys.executable, "-W", "error", "-c", before + "\n" + BARS]
    ended = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ended.returncode == 0, ended.stderr
    assert re.fullmatch(out, ended.stdout, re.DOTALL), ended.stdout
    assert re.fullmatch(error, ended.stderr), ended.stderr


def test_no_widgets_are_imported_where_there_is_no_notebook() -> None:
    """They take a second, and every command shows its progress."""
    code = "import sys, jsa.training.progress; sys.exit('ipywidgets' in sys.modules or 'tqdm.notebook' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
