"""What a person sees of many jobs: one bar for all and one for each that runs, or lines where nobody watches."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from tqdm import tqdm

from jsa.experiments.jobs import VARIANCES, Job, Places
from jsa.experiments.workers import last_line
from jsa.training.folder import RunFolder
from jsa.training.report import duration, figures

MINUTES_BETWEEN_LINES = 5.0


class Bars:
    """A bar for the epochs of all jobs, and one for each job that runs."""

    def __init__(self, jobs: Sequence[Job], places: Places, at_once: int) -> None:
        self._places = places
        self._epochs = {job: epochs_done(job, places)[0] for job in jobs}
        total = sum(job.config.epochs for job in jobs)
        self._all = tqdm(total=total, unit="epoch", desc="all runs", dynamic_ncols=True, position=0, smoothing=0)
        # Done before the clock began, so that they do not count for the speed.
        self._all.initial = self._all.n = self._all.last_print_n = sum(self._epochs.values())
        self._free = list(range(1, at_once + 1))
        self._bars: dict[Job, tqdm[object]] = {}

    def started(self, job: Job) -> None:
        """Shows a bar for the job."""
        done = self._epochs[job]
        bar = tqdm(
            total=job.config.epochs,
            initial=done,
            unit="epoch",
            desc=f"{job.table} {job.name}",
            dynamic_ncols=True,
            position=self._free.pop(0),
            leave=False,
        )
        self._bars[job] = bar

    def glance(self, running: Sequence[Job]) -> None:
        """Moves the bars to where the runs are."""
        for job in running:
            epoch, shown = epochs_done(job, self._places)
            bar = self._bars[job]
            bar.set_postfix_str(shown, refresh=False)
            bar.update(epoch - bar.n)
            bar.refresh()
            self._epochs[job] = epoch
        self._all.update(sum(self._epochs.values()) - self._all.n)
        self._all.refresh()

    def ended(self, job: Job, failure: str | None) -> None:
        """Takes the bar of the job away and says how it ended."""
        bar = self._bars.pop(job)
        self._free.append(-int(bar.pos))
        bar.close()
        self._epochs[job] = epochs_done(job, self._places)[0]
        self._all.write(ending(job, failure), file=sys.stderr)

    def close(self) -> None:
        """Leaves the terminal tidy."""
        for bar in self._bars.values():
            bar.close()
        self._all.close()


class Lines:
    """A line when a job begins or ends, and now and then how far the others are."""

    def __init__(self, jobs: Sequence[Job], places: Places, stream: TextIO) -> None:
        self._places, self._stream = places, stream
        self._left = len(jobs)
        self._last = time.monotonic()

    def started(self, job: Job) -> None:
        """Says so."""
        epoch, _ = epochs_done(job, self._places)
        self._write(f"{job.group}/{job.name}: " + (f"continued at epoch {epoch}" if epoch else "begun"))

    def glance(self, running: Sequence[Job]) -> None:
        """Says now and then how far the runs are."""
        if time.monotonic() - self._last < 60 * MINUTES_BETWEEN_LINES:
            return
        self._last = time.monotonic()
        for job in running:
            epoch, shown = epochs_done(job, self._places)
            self._write(f"{job.group}/{job.name}: epoch {epoch}/{job.config.epochs}, {shown}")

    def ended(self, job: Job, failure: str | None) -> None:
        """Says how."""
        self._left -= 1
        self._write(f"{ending(job, failure)}; {self._left} left")

    def close(self) -> None:
        """Nothing is open."""

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


def epochs_done(job: Job, places: Places) -> tuple[int, str]:
    """How many epochs of a job are done, and the figures of the last one."""
    folder = RunFolder(places.run(job))
    with suppress(ValueError, KeyError):
        record = json.loads(last_line(folder.metrics) or "{}")
        done = int(record["epoch"])
        if done >= job.config.epochs:
            return done, f"{_behind_the_training(job, folder)}, {duration(record['seconds'])}"
        return done, figures(record)
    return 0, "starting"


def _behind_the_training(job: Job, folder: RunFolder) -> str:
    """What a run does whose epochs are done: it is scored, and the variances of its gradients take their time."""
    every = job.config.machine.snapshot_every
    if every is None or not folder.evaluation.is_file():
        return "scoring"
    known = folder.path / VARIANCES
    measured = len(json.loads(known.read_text(encoding="utf-8"))) if known.is_file() else 0
    return f"variance {measured + 1} of {job.config.epochs // every}"


def ending(job: Job, failure: str | None) -> str:
    """A line about a job that ended."""
    return f"{job.group}/{job.name}: " + ("done" if failure is None else f"failed: {failure}")


def display(jobs: Sequence[Job], places: Places, at_once: int) -> Bars | Lines:
    """Bars where someone watches a terminal, lines otherwise."""
    return Bars(jobs, places, at_once) if sys.stderr.isatty() else Lines(jobs, places, sys.stderr)
