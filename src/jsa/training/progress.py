"""Who is told how a training goes: a progress bar, lines, TensorBoard."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from tqdm import tqdm

from jsa.evaluation.rows import Progress

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class Watcher(Protocol):
    """Who is told how the training goes: a progress bar, a log, or nobody."""

    def start(self, epoch: int, step: int) -> None:
        """The training begins in this epoch, behind so many steps."""
        ...

    def step(self, epoch: int) -> None:
        """A step was made."""
        ...

    def validating(self, rows: int) -> Progress:
        """A validation begins; the answer is told how many rows are done."""
        ...

    def epoch(self, record: Mapping[str, object]) -> None:
        """An epoch ended, with these figures."""
        ...

    def note(self, sentence: str) -> None:
        """Something that whoever trains should know."""
        ...


class Silent:
    """Nobody is told."""

    def start(self, epoch: int, step: int) -> None:
        """Nothing is shown."""

    def step(self, epoch: int) -> None:
        """Nothing is shown."""

    def validating(self, rows: int) -> Progress:
        """Nothing is shown."""
        return lambda count: None

    def epoch(self, record: Mapping[str, object]) -> None:
        """Nothing is shown."""

    def note(self, sentence: str) -> None:
        """Nothing is shown."""

    def close(self) -> None:
        """Nothing is open."""


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


class Events:
    """Writes the figures of each epoch for TensorBoard, or nothing where it is not installed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: SummaryWriter | None = None

    def start(self, epoch: int) -> None:
        """Opens a file of events; those of a run that is continued are hidden from this epoch on."""
        if importlib.util.find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self._folder), purge_step=epoch if epoch > 1 else None)

    def epoch(self, record: Mapping[str, object]) -> None:
        """Adds the numbers of an epoch."""
        if self._writer is not None:
            for name, value in record.items():
                if isinstance(value, int | float) and name != "epoch":
                    self._writer.add_scalar(name, value, int(str(record["epoch"])))

    def close(self) -> None:
        """Flushes what was written."""
        if self._writer is not None:
            self._writer.close()
