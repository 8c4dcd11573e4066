"""Runs that are killed with SIGKILL and continued until they end, to be compared with one that was left in peace."""

from __future__ import annotations

import random
import shutil
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from helpers.kills import forked
from helpers.small_runs import differences as differing_tensors
from jsa.cli import main

RESUMES = 20
"""A run that is killed on its way is continued so often before it counts as lost."""

FLAGS = [
    *("--model", "linear", "--latents", "4", "--epochs", "6", "--batch-size", "20", "--switch-epoch", "3"),
    *("--validate-every", "2", "--validation-samples", "5", "--test-samples", "5", "--threads", "1"),
    *("--learning-rate", "0.05", "--schedule", "cosine", "--average-decay", "0.9"),
]


@dataclass(frozen=True)
class Kill:
    """When a run is to be killed.

    Attributes:
        kind: The line of the table in which it counts.
        place: The injected place, ``name:count``; none for a moment of the clock.
        moment: Which share of a whole run's time passes before the kill, for a moment of the clock.
        again: Shares of that time after which the continued run is killed again.
        seconds: Seconds between the checkpoints of the run.
    """

    kind: str
    place: str = ""
    moment: float = 0.0
    again: tuple[float, ...] = ()
    seconds: float = 0.0

    @property
    def when(self) -> str:
        """The place or the moment in a few words."""
        return self.place or f"after {self.moment:.0%} of the time"


@dataclass
class Line:
    """What came of the kills of one kind."""

    kills: int = 0
    lost: int = 0
    different: int = 0
    missed: list[str] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)


class Torture:
    """One unharmed run, and what it is compared with.

    Processes are forked from this one, which has imported everything and computed nothing.

    Args:
        folder: Where to work.
        on_disk: Whether the chains are on disk.
    """

    def __init__(self, folder: Path, on_disk: bool) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.table = folder / "table.csv"
        values = np.random.default_rng(0).integers(0, 2, (125, 3)).repeat(3, axis=1)
        np.savetxt(self.table, values, fmt="%d", delimiter=",")
        self.flags = [*FLAGS, *(["--chains-on-disk"] if on_disk else [])]
        self.whole = folder / "whole"
        started = time.monotonic()
        if self._process(self._new(self.whole, 0.0)) != 0:
            raise RuntimeError(f"the unharmed run failed: {(folder / 'output.txt').read_text()}")
        self.seconds = time.monotonic() - started

    def suffer(self, kill: Kill, line: Line) -> str:
        """Kills a run, continues it to its end and compares; says in a word or two what came of it."""
        path = self.folder / "killed"
        shutil.rmtree(path, ignore_errors=True)
        after = kill.moment * self.seconds if not kill.place else None
        code = self._process(self._new(path, kill.seconds), kill.place, after)
        if code != -signal.SIGKILL:
            if kill.place:
                line.missed.append(kill.place)
            return "never passed" if kill.place else "ended before"
        line.kills += 1
        moments = [share * self.seconds for share in kill.again]
        for attempt in range(RESUMES):
            known = (path / "config.json").is_file()
            arguments = ["resume", str(path)] if known else self._new(path, kill.seconds)
            code = self._process(arguments, after=moments[attempt] if attempt < len(moments) else None)
            if code == 0:
                break
            line.kills += code == -signal.SIGKILL
            if code != -signal.SIGKILL:
                line.lost += 1
                line.examples.append(f"{kill}: {(self.folder / 'output.txt').read_text().splitlines()[-1:]}")
                return "lost"
        found = differences(self.whole, path)
        if found:
            line.different += 1
            line.examples.append(f"{kill}: {', '.join(found[:5])}")
        return "different" if found else "the same"

    def _new(self, path: Path, seconds: float) -> list[str]:
        arguments = ["train", "--data", str(self.table), *self.flags, "--checkpoint-seconds", str(seconds)]
        return [*arguments, "--out", str(path)]

    def _process(self, arguments: list[str], place: str = "", after: float | None = None) -> int:
        """Runs the command in a process of its own, killed at a place or after some seconds; gives its exit code."""
        return forked(lambda: main(arguments), place, after, self.folder / "output.txt")


def differences(one: Path, two: Path) -> list[str]:
    """In what two whole runs differ: weights, optimizer, chains, metrics, figures and pictures."""
    found = differing_tensors(one, two)
    shown = [path.name for path in one.iterdir() if path.stem in ("samples", "reconstructions", "curves")]
    for name in ("evaluation.json", *sorted(shown)):
        if not (two / name).is_file() or (one / name).read_bytes() != (two / name).read_bytes():
            found.append(name)
    left = {path.name for path in two.rglob("*") if path.suffix == ".part" or path.name == "lock"}
    return found + sorted(left)


def moments(count: int, kind: str, seed: int) -> list[Kill]:
    """Moments of the clock, some of them with further kills on the way, and all intervals of checkpoints."""
    draw = random.Random(seed)
    kills = []
    for number in range(count):
        again = tuple(draw.uniform(0.02, 0.8) for _ in range(number % 3))
        kills.append(Kill(kind, moment=draw.uniform(0.0, 0.95), again=again, seconds=(0.0, 0.05, 30.0)[number % 3]))
    return kills
