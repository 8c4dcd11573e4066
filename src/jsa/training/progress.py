"""Callbacks that show training progress: a bar, lines, TensorBoard events."""

from __future__ import annotations

import importlib.util
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, TextIO

from tqdm import TqdmWarning

from jsa.evaluation.rows import Progress
from jsa.training.callbacks import Callback
from jsa.training.state import State

with warnings.catch_warnings():
    # A notebook without ipywidgets, which cannot show a bar, gets lines.
    warnings.simplefilter("ignore", TqdmWarning)
    from tqdm.auto import tqdm

IN_NOTEBOOK = any(base.__module__ == "tqdm.notebook" for base in tqdm.__mro__)
"""Whether bars are widgets of a notebook, which need no terminal."""

BAR_SECONDS = 1.0
"""The time between two refreshes of a bar, whose clock so goes on inside a long step."""

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class Heartbeat:
    """Calls a function again and again from a thread of its own, so that a long step does not look like a hang.

    Args:
        beat: The function.
        seconds: The time between two calls.
    """

    def __init__(self, beat: Callable[[], object], seconds: float) -> None:
        self._ended = Event()
        self._thread = Thread(target=self._run, args=(beat, seconds), daemon=True)
        self._thread.start()

    def _run(self, beat: Callable[[], object], seconds: float) -> None:
        while not self._ended.wait(seconds):
            beat()

    def end(self) -> None:
        """Call the function no more."""
        self._ended.set()
        self._thread.join()


class ProgressBar(Callback):
    """One bar for the whole training, followed by the latest figures."""

    def __init__(self, epochs: int, steps: int) -> None:
        self._epochs = epochs
        self._bar = tqdm(total=steps, unit="step", dynamic_ncols=True, smoothing=0.05)
        self._figures = ""
        self._heartbeat = Heartbeat(self._bar.refresh, BAR_SECONDS)

    def start(self, state: State) -> None:
        # Done before the clock of the bar began, so that they do not count for its speed.
        self._bar.initial = self._bar.n = self._bar.last_print_n = state.progress.step
        self._bar.refresh()

    def step(self, state: State) -> None:
        self._bar.set_description_str(f"epoch {state.progress.epoch}/{self._epochs}", refresh=False)
        self._bar.update()

    def validating(self, done: int, rows: int) -> None:
        self._bar.set_postfix_str(f"validating {100 * done // rows} %, {self._figures}")

    def epoch(self, state: State, record: Mapping[str, object]) -> None:
        self._figures = figures(record) if "valid_nll" in record or not self._figures else self._figures
        self._bar.set_postfix_str(self._figures)

    def note(self, sentence: str) -> None:
        self._bar.write(f"note: {sentence}", file=sys.stderr)

    def end(self) -> None:
        self._heartbeat.end()
        self._bar.close()


class Lines(Callback):
    """A line per epoch, for files and pipes, and one each minute of a longer epoch.

    Args:
        epochs: The number of epochs.
        steps: The number of steps of all of them.
        stream: Where to write.
        patience: The seconds without a line after which there is one in the middle of an epoch.
    """

    def __init__(self, epochs: int, steps: int, stream: TextIO, patience: float = 60.0) -> None:
        self._epochs, self._steps = epochs, steps
        self._stream = stream
        self._patience = patience
        self._started = self._written = time.monotonic()
        self._done_before = 0
        self._doing = ""
        self._heartbeat = Heartbeat(self._tell_what_it_is_doing, min(1.0, patience))

    def start(self, state: State) -> None:
        self._started = time.monotonic()
        self._done_before = state.progress.epoch - 1
        self.step(state)

    def step(self, state: State) -> None:
        self._doing = (
            f"epoch {state.progress.epoch}/{self._epochs}, {state.progress.step:,} of {self._steps:,} steps done"
        )

    def validating(self, done: int, rows: int) -> None:
        self._doing = f"{self._doing.partition(', validating')[0]}, validating {100 * done // rows} %"

    def epoch(self, state: State, record: Mapping[str, object]) -> None:
        done = state.progress.epoch
        # A training that continues may first publish an epoch that had ended.
        left = (time.monotonic() - self._started) / (done - self._done_before) * (self._epochs - done)
        self._write(f"epoch {done}/{self._epochs}, {figures(record)}, {duration(left)} left")

    def note(self, sentence: str) -> None:
        self._write(f"note: {sentence}")

    def end(self) -> None:
        self._heartbeat.end()

    def _tell_what_it_is_doing(self) -> None:
        now = time.monotonic()
        if self._doing and now - self._written >= self._patience:
            self._write(f"{self._doing} after {duration(now - self._started)}")

    def _write(self, line: str) -> None:
        self._written = time.monotonic()
        self._stream.write(line + "\n")
        self._stream.flush()


class TensorBoard(Callback):
    """Writes the figures of each epoch for TensorBoard, or nothing if it is not installed.

    Args:
        folder: The folder of its files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: SummaryWriter | None = None

    def start(self, state: State) -> None:
        if importlib.util.find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            # Events of a run that continues are hidden from this epoch on.
            epoch = state.progress.epoch
            self._writer = SummaryWriter(str(self._folder), purge_step=epoch if epoch > 1 else None)

    def epoch(self, state: State, record: Mapping[str, object]) -> None:
        if self._writer is not None:
            for name, value in record.items():
                if isinstance(value, int | float) and name != "epoch":
                    self._writer.add_scalar(name, value, state.progress.epoch)

    def end(self) -> None:
        if self._writer is not None:
            self._writer.close()


def display(epochs: int, steps: int) -> Callback:
    """Return a bar in a notebook or if standard error is a terminal, lines otherwise."""
    return ProgressBar(epochs, steps) if IN_NOTEBOOK or sys.stderr.isatty() else Lines(epochs, steps, sys.stderr)


@contextmanager
def evaluation_progress(rows: int, label: str) -> Iterator[Progress]:
    """Yield what takes the progress of a long evaluation: a bar in a notebook or on a terminal."""
    with tqdm(total=rows, unit="row", desc=label, dynamic_ncols=True, leave=False, disable=None) as bar:
        heartbeat = Heartbeat(bar.refresh, BAR_SECONDS)
        try:
            yield bar.update
        finally:
            heartbeat.end()


def figures(record: Mapping[str, object]) -> str:
    """Return the figures of an epoch that a person looks at.

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
    """Write a duration for people.

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
