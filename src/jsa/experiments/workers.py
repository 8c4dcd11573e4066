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
from typing import Protocol

from jsa.experiments.jobs import Job, Places
from jsa.records import to_record
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
