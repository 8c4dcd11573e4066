"""Jobs side by side, each in a process of its own with one thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO

from tqdm import tqdm

from jsa.experiments.jobs import VARIANCES, Job, Places
from jsa.io.json_records import to_record
from jsa.runs.folder import RunFolder
from jsa.training.progress import duration, figures
from jsa.training.signals import StopRequest, StopRequestedError

GLANCE = 0.5
"""Seconds between two looks at the processes."""


class Watcher(Protocol):
    """Who is told how the jobs go."""

    def started(self, job: Job) -> None:
        """A process began to work on the job."""
        ...

    def glance(self, running: Sequence[Job]) -> None:
        """Some time passed."""
        ...

    def ended(self, job: Job, failure: str | None) -> None:
        """The process of the job ended, with this sentence where it failed."""
        ...


@dataclass
class _Running:
    """A process, and how long the log of its job was when it began: what comes behind that may be its own."""

    job: Job
    process: subprocess.Popen[bytes]
    log_began: int


def run_jobs(
    jobs: Sequence[Job], places: Places, at_once: int, watcher: Watcher, stop: StopRequest | None = None
) -> dict[Job, str]:
    """Brings jobs to their end.

    A process whose standard input is closed writes a checkpoint and ends: so do all of them when this one is asked to
    stop, and by the system's hand when this one is killed.

    Args:
        jobs: The jobs, in the order in which they are begun.
        places: Where runs and results are.
        at_once: How many processes.
        watcher: Who is told how it goes.
        stop: Who may ask to stop.

    Returns:
        The jobs that failed, each with its last sentence. The others are done all the same.
    """
    request = stop or StopRequest()
    waiting, running, failed = list(jobs), list[_Running](), dict[Job, str]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                job = waiting.pop(0)
                running.append(_start(job, places))
                watcher.started(job)
            for one in [one for one in running if one.process.poll() is not None]:
                running.remove(one)
                _close(one.process)
                failure = None if one.process.returncode == 0 else _last_sentence(one, places)
                if failure is not None:
                    failed[one.job] = failure
                watcher.ended(one.job, failure)
            watcher.glance([one.job for one in running])
            request.check()
            time.sleep(GLANCE)
    except StopRequestedError:
        raise request.interrupted("with every run at a checkpoint", "the same command") from None
    finally:
        for one in running:
            _close(one.process)
        for one in running:
            one.process.wait()
    return failed


def command(job: Job, places: Places) -> list[str]:
    """How to start the process of a job."""
    record = {"job": to_record(job), "runs": str(places.runs), "results": str(places.results)}
    return [sys.executable, "-m", "jsa.experiments.worker", json.dumps(record)]


def _start(job: Job, places: Places) -> _Running:
    log = places.log(job)
    log.parent.mkdir(parents=True, exist_ok=True)
    # Threads beyond one would only stand in the way of the other processes.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    began = log.stat().st_size if log.is_file() else 0
    with log.open("ab") as file:
        # In a session of its own, so that Ctrl-C on the terminal reaches this process alone, which closes the pipe.
        process = subprocess.Popen(
            command(job, places),
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            env=environment,
            start_new_session=True,
        )
    return _Running(job, process, began)


def _close(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.close()


def _last_sentence(one: _Running, places: Places) -> str:
    """What the process said at last, and where the rest of it is."""
    code, log = one.process.returncode, places.log(one.job)
    if code < 0:
        return f"its process was killed by signal {-code}; the same command continues it"
    # Another process at the same run may write into the same log: an error of this program is known by its name.
    lines = _last_lines(log, one.log_began)
    errors = [line for line in lines if line.startswith("jsa: ")]
    sentence = (errors or lines or [""])[-1]
    return f"{sentence.removeprefix('jsa: ')} (see {log})"


def last_line(path: Path) -> str:
    """The last line of a file that may be long; empty where there is none."""
    return (_last_lines(path) or [""])[-1] if path.is_file() else ""


def _last_lines(path: Path, behind: int = 0) -> list[str]:
    """The last lines of a file, those that begin behind some place of it."""
    with path.open("rb") as file:
        file.seek(max(behind, path.stat().st_size - 4096))
        return [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]


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
