"""What a person sees of a training: a progress bar on a terminal, a line an epoch elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

from tqdm import tqdm

from jsa.evaluation.likelihood import Progress


class ProgressBar:
    """One bar for the whole training, with the latest figures behind it."""

    def __init__(self, epochs: int, steps_an_epoch: int) -> None:
        self._epochs = epochs
        self._bar = tqdm(total=epochs * steps_an_epoch, unit="step", dynamic_ncols=True, smoothing=0.05)
        self._figures = ""

    def start(self, epoch: int, step: int) -> None:
        """Shows the steps of an earlier half of the run as done."""
        # Done before the clock of the bar began, so that they do not count for its speed.
        self._bar.initial = self._bar.n = self._bar.last_print_n = step
        self._bar.refresh()

    def step(self, epoch: int) -> None:
        """A step was made."""
        self._bar.set_description_str(f"epoch {epoch}/{self._epochs}", refresh=False)
        self._bar.update()

    def validating(self, rows: int) -> Progress:
        """Shows how far a validation is, in front of the figures."""
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            self._bar.set_postfix_str(f"validating {100 * done // rows} %, {self._figures}")

        return advance

    def epoch(self, record: Mapping[str, object]) -> None:
        """Shows the figures of an epoch."""
        self._figures = figures(record) if "valid_nll" in record or not self._figures else self._figures
        self._bar.set_postfix_str(self._figures)

    def note(self, sentence: str) -> None:
        """Writes a line above the bar."""
        self._bar.write(f"note: {sentence}", file=sys.stderr)

    def close(self) -> None:
        """Leaves the bar as it is."""
        self._bar.close()


class Lines:
    """A line an epoch, for files and pipes."""

    def __init__(self, epochs: int, stream: TextIO) -> None:
        self._epochs = epochs
        self._stream = stream
        self._started = time.monotonic()
        self._done_before = 0

    def start(self, epoch: int, step: int) -> None:
        """Counts the time that is left from here."""
        self._started = time.monotonic()
        self._done_before = epoch - 1

    def step(self, epoch: int) -> None:
        """A step is too little for a line."""

    def validating(self, rows: int) -> Progress:
        """A validation has no line of its own."""
        return lambda count: None

    def epoch(self, record: Mapping[str, object]) -> None:
        """Writes the figures of an epoch and the time that is left."""
        done = int(str(record["epoch"]))
        # A run that goes on may first write the figures of an epoch that it found ended.
        left = (time.monotonic() - self._started) / (done - self._done_before) * (self._epochs - done)
        line = f"epoch {done}/{self._epochs}, {figures(record)}, {duration(left)} left"
        self._stream.write(line + "\n")
        self._stream.flush()

    def note(self, sentence: str) -> None:
        """Writes a line."""
        self._stream.write(f"note: {sentence}\n")
        self._stream.flush()

    def close(self) -> None:
        """Nothing is open."""


def figures(record: Mapping[str, object]) -> str:
    """The figures of an epoch that a person looks at.

    >>> figures({"epoch": 5, "stage": 2, "objective": -101.234, "acceptance": 0.0312, "valid_nll": 99.5})
    'stage 2, bound -101.23, acceptance 0.031, valid NLL 99.50'
    """
    shown = []
    if "stage" in record:
        shown.append(f"stage {record['stage']}")
    for name, label, digits in (
        ("objective", "bound", 2),
        ("acceptance", "acceptance", 3),
        ("valid_nll", "valid NLL", 2),
    ):
        value = record.get(name)
        if isinstance(value, float):
            shown.append(f"{label} {value:.{digits}f}")
    return ", ".join(shown)


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(59), duration(3671)
    ('59s', '1h01m')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"


def watcher(epochs: int, steps_an_epoch: int) -> ProgressBar | Lines:
    """The bar where someone watches a terminal, lines otherwise."""
    if sys.stderr.isatty():
        return ProgressBar(epochs, steps_an_epoch)
    return Lines(epochs, sys.stderr)


@contextmanager
def evaluation_progress(rows: int, label: str) -> Iterator[Progress]:
    """What to tell the progress of a long evaluation: a bar where someone watches a terminal."""
    with tqdm(total=rows, unit="row", desc=label, dynamic_ncols=True, leave=False, disable=None) as bar:
        yield bar.update
