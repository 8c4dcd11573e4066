"""Parallel jobs, each in its own process with one thread."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
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

SILENCE, SILENCE_AT_THE_END = 300.0, 30.0
"""Seconds without a heartbeat after which a process is killed: while it works, and when it was asked to stop. A process
beats every second, but not while it loads libraries from a slow disk."""


class Display(Protocol):
    """A display of the progress of jobs."""

    def started(self, job: Job) -> None:
        """Show that a process started the job."""

    def glance(self, running: Sequence[Job]) -> None:
        """Update the progress of the runs; called every so often."""

    def ended(self, job: Job, failure: str | None) -> None:
        """Show that the process of the job ended, with this sentence if it failed."""

    def close(self) -> None:
        """Leave the terminal tidy."""


@dataclass
class _Running:
    """The process of a job.

    Attributes:
        job: The job.
        process: The process.
        input: The other end of its standard input, which is a socket: it writes heartbeats there, and stops when this
            end is closed for writing.
        log_began: The length of the job's log at the start: only later lines can be its own.
        heard: When the last heartbeat was noticed.
        silent: The seconds without a heartbeat since then, counted only while somebody looked: if this process was
            suspended, with the whole machine or alone, that proves nothing about the other one.
    """

    job: Job
    process: subprocess.Popen[bytes]
    input: socket.socket
    log_began: int
    heard: float = field(default_factory=time.time)
    silent: float = 0.0

    def look(self, limit: float) -> str | None:
        """Notice heartbeats; kill a process that is silent for too long, and return a sentence about that."""
        if self._beats() or _has_debugger(self.process.pid):
            self.heard, self.silent = time.time(), 0.0
        elif self.silent < limit:
            self.silent += GLANCE
        else:
            # The only signal that ends a stopped process too.
            self.process.kill()
            self.process.wait()
            since = time.strftime("%H:%M:%S", time.localtime(self.heard))
            return (
                f"its process {self.process.pid} had been silent since {since}, as one that was stopped by SIGSTOP is, "
                "and was killed; the same command continues it from its last checkpoint"
            )
        return None

    def _beats(self) -> bool:
        with suppress(BlockingIOError, ConnectionError):
            return bool(self.input.recv(4096))
        return False


def run_jobs(
    jobs: Sequence[Job],
    places: Places,
    at_once: int,
    shown: Display,
    stop: StopRequest | None = None,
    silence: float = SILENCE,
) -> dict[Job, str]:
    """Run jobs until they are done.

    A process writes a checkpoint and ends when its standard input is closed. So all processes end when this one is
    asked to stop, and also when it is killed, since the system then closes their inputs. A process that was stopped by
    SIGSTOP would never end: it is killed when it has been silent for too long, and its job has failed.

    Args:
        jobs: The jobs, in the order in which they start.
        places: The folders of runs and results.
        at_once: The number of processes.
        shown: The display of the progress.
        stop: The request to stop the jobs.
        silence: Seconds without a heartbeat after which a process is killed.

    Returns:
        The failed jobs, each with its last sentence. The other jobs are done.
    """
    request = stop or StopRequest()
    waiting, running, failed = list(jobs), list[_Running](), dict[Job, str]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                job = waiting.pop(0)
                running.append(_start(job, places))
                shown.started(job)
            for one in list(running):
                failure = None
                if one.process.poll() is None and (failure := one.look(silence)) is None:
                    continue
                running.remove(one)
                one.input.close()
                if failure is None and one.process.returncode != 0:
                    failure = _last_sentence(one, places)
                if failure is not None:
                    failed[one.job] = failure
                shown.ended(one.job, failure)
            shown.glance([one.job for one in running])
            request.check()
            time.sleep(GLANCE)
    except StopRequestedError:
        raise request.interrupted("with every run at a checkpoint", "the same command") from None
    finally:
        _stop(running, shown, min(silence, SILENCE_AT_THE_END))
    return failed


def _stop(running: Sequence[_Running], shown: Display, silence: float) -> None:
    """Ask processes to stop, and wait until they have ended."""
    for one in running:
        with suppress(OSError):  # of one that has ended
            one.input.shutdown(socket.SHUT_WR)
    while left := [one for one in running if one.process.poll() is None]:
        for one in left:
            if (failure := one.look(silence)) is not None:
                shown.ended(one.job, failure)
        time.sleep(GLANCE)
    for one in running:
        one.input.close()


def command(job: Job, places: Places) -> list[str]:
    """Return the command that starts the process of a job."""
    record = {"job": to_record(job), "runs": str(places.runs), "results": str(places.results)}
    return [sys.executable, "-m", "jsa.experiments.process", json.dumps(record)]


def _start(job: Job, places: Places) -> _Running:
    log = places.log(job)
    log.parent.mkdir(parents=True, exist_ok=True)
    # More threads would only slow down the other processes.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    began = log.stat().st_size if log.is_file() else 0
    ours, its = socket.socketpair()
    ours.setblocking(False)
    with log.open("ab") as file, its:
        # In a session of its own, so that Ctrl-C on the terminal reaches this process alone, which asks it to stop.
        process = subprocess.Popen(
            command(job, places),
            stdin=its.fileno(),
            stdout=file,
            stderr=file,
            env=environment,
            start_new_session=True,
        )
    return _Running(job, process, ours, began)


def _has_debugger(process: int) -> bool:
    """Return whether a debugger has a process, which may stop it for as long as it likes; known on Linux only."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return False
    return "TracerPid:\t0\n" not in status


def _last_sentence(one: _Running, places: Places) -> str:
    """Return the last message of the process, and the path of its log."""
    code, log = one.process.returncode, places.log(one.job)
    if code < 0:
        return f"its process was killed by signal {-code}; the same command continues it"
    # Another process of the same run may write to the same log, so errors of this program are found by their prefix.
    lines = _last_lines(log, one.log_began)
    errors = [line for line in lines if line.startswith("jsa: ")]
    sentence = (errors or lines or [""])[-1]
    return f"{sentence.removeprefix('jsa: ')} (see {log})"


def last_line(path: Path) -> str:
    """Return the last line of a possibly long file; empty if there is none."""
    return (_last_lines(path) or [""])[-1] if path.is_file() else ""


def _last_lines(path: Path, start: int = 0) -> list[str]:
    """Return the last lines of a file that begin after an offset."""
    with path.open("rb") as file:
        file.seek(max(start, path.stat().st_size - 4096))
        return [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]


MINUTES_BETWEEN_LINES = 5.0


class Bars(Display):
    """A progress bar for the epochs of all jobs, and one for each running job."""

    def __init__(self, jobs: Sequence[Job], places: Places, at_once: int) -> None:
        self._places = places
        self._epochs = {job: epochs_done(job, places)[0] for job in jobs}
        # Earlier epochs do not count for the speed.
        self._all = self._bar("all runs", sum(job.config.epochs for job in jobs), sum(self._epochs.values()), 0)
        self._free = list(range(1, at_once + 1))
        self._bars: dict[Job, tqdm[object]] = {}

    @staticmethod
    def _bar(label: str, total: int, done: int, position: int) -> tqdm[object]:
        leave, smoothing = (False, 0.3) if position else (True, 0)
        return tqdm(
            total=total,
            initial=done,
            unit="epoch",
            desc=label,
            dynamic_ncols=True,
            position=position,
            leave=leave,
            smoothing=smoothing,
        )

    def started(self, job: Job) -> None:
        label = f"{job.table} {job.name}"
        self._bars[job] = self._bar(label, job.config.epochs, self._epochs[job], self._free.pop(0))

    def glance(self, running: Sequence[Job]) -> None:
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
        """Remove the bar of the job and write a line above the others."""
        bar = self._bars.pop(job)
        self._free.append(-int(bar.pos))
        bar.close()
        self._epochs[job] = epochs_done(job, self._places)[0]
        self._all.write(ending(job, failure), file=sys.stderr)

    def close(self) -> None:
        for bar in self._bars.values():
            bar.close()
        self._all.close()


class Lines(Display):
    """A line when a job starts or ends, and now and then the progress of the others."""

    def __init__(self, jobs: Sequence[Job], places: Places, stream: TextIO) -> None:
        self._places, self._stream = places, stream
        self._left = len(jobs)
        self._last = time.monotonic()

    def started(self, job: Job) -> None:
        epoch, _ = epochs_done(job, self._places)
        self._write(f"{job.group}/{job.name}: " + (f"continued at epoch {epoch}" if epoch else "begun"))

    def glance(self, running: Sequence[Job]) -> None:
        """Write the progress of the runs, but only every few minutes."""
        if time.monotonic() - self._last < 60 * MINUTES_BETWEEN_LINES:
            return
        self._last = time.monotonic()
        for job in running:
            epoch, shown = epochs_done(job, self._places)
            self._write(f"{job.group}/{job.name}: epoch {epoch}/{job.config.epochs}, {shown}")

    def ended(self, job: Job, failure: str | None) -> None:
        self._left -= 1
        self._write(f"{ending(job, failure)}; {self._left} left")

    def close(self) -> None:
        pass

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


def epochs_done(job: Job, places: Places) -> tuple[int, str]:
    """Return the number of finished epochs of a job, and the metrics of the last one."""
    folder = RunFolder(places.run(job))
    with suppress(ValueError, KeyError):
        record = json.loads(last_line(folder.metrics) or "{}")
        done = int(record["epoch"])
        if done >= job.config.epochs:
            return done, f"{_after_training(job, folder)}, {duration(record['seconds'])}"
        return done, figures(record)
    return 0, "starting"


def _after_training(job: Job, folder: RunFolder) -> str:
    """Describe what a run does after its epochs: the scoring, then the variance of its gradients."""
    every = job.config.checkpoints.snapshot_every
    if every is None or not folder.evaluation.is_file():
        return "scoring"
    known = folder.path / VARIANCES
    measured = len(json.loads(known.read_text(encoding="utf-8"))) if known.is_file() else 0
    return f"variance {measured + 1} of {job.config.epochs // every}"


def ending(job: Job, failure: str | None) -> str:
    """Return a line about a finished job."""
    return f"{job.group}/{job.name}: " + ("done" if failure is None else f"failed: {failure}")


def display(jobs: Sequence[Job], places: Places, at_once: int) -> Display:
    """Return progress bars on a terminal, lines otherwise."""
    return Bars(jobs, places, at_once) if sys.stderr.isatty() else Lines(jobs, places, sys.stderr)
