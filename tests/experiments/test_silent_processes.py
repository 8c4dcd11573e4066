"""A process that was stopped by SIGSTOP is given up; one that is slow, suspended with us or debugged is not."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from jsa.experiments import runner
from jsa.experiments.jobs import Job, Places
from jsa.experiments.runner import Lines, run_jobs
from jsa.training.signals import InterruptedRunError, StopRequest

LIMIT = 2.0

BEATING = "import os, sys, time; from jsa.experiments.process import keep_in_touch; keep_in_touch(); "
SAYING = f"{BEATING} open(sys.argv[1], 'w').write(str(os.getpid())); "

JOBS = [Job("table1", "linear", method, "short", 0) for method in ("jsa", "rloo")]


@dataclass
class Command:
    """Some jobs at work, each in a process that says who it is, in a thread that waits for them."""

    folder: Path
    pool: ThreadPoolExecutor
    stop: StopRequest = field(default_factory=StopRequest)

    def begin(self, silence: float) -> Future[dict[Job, str]]:
        places = Places(self.folder / "runs", self.folder / "results")
        lines = Lines(JOBS, places, sys.stderr)
        return self.pool.submit(run_jobs, JOBS, places, 2, lines, self.stop, silence)

    def process(self, job: Job) -> int:
        """The process of a job, once it is at work."""
        path = self.folder / job.name
        deadline = time.monotonic() + 60
        while not (path.exists() and path.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return int(path.read_text())


@pytest.fixture
def command(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Jobs that do what the parameter says, or work for a minute."""
    program = SAYING + getattr(request, "param", "time.sleep(60)")
    monkeypatch.setattr(
        runner, "command", lambda job, places: [sys.executable, "-c", program, str(tmp_path / job.name)]
    )
    with ThreadPoolExecutor(1) as pool:
        made = Command(tmp_path, pool)
        yield made
        for job in JOBS:
            with suppress(ProcessLookupError):
                os.kill(made.process(job), signal.SIGKILL)


@pytest.mark.parametrize("command", [f"time.sleep({2 * LIMIT})"], indirect=True)
def test_a_stopped_process_is_killed_and_the_others_go_on(command: Command, capfd: pytest.CaptureFixture[str]) -> None:
    """Also one whose step takes longer than that."""
    waiting = command.begin(LIMIT)
    stopped, _ = map(command.process, JOBS)
    os.kill(stopped, signal.SIGSTOP)
    failed = waiting.result(timeout=60)
    assert list(failed) == JOBS[:1]
    assert re.fullmatch(
        rf"its process {stopped} had been silent since \d\d:\d\d:\d\d, as one that was stopped by SIGSTOP is, and was "
        "killed; the same command continues it from its last checkpoint",
        failed[JOBS[0]],
    )
    assert f"table1/short/linear-jsa-seed0: failed: its process {stopped} had been silent" in capfd.readouterr().err
    with pytest.raises(ProcessLookupError):
        os.kill(stopped, 0)


def test_without_a_limit_the_command_would_wait_for_ever(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The known-wrong twin, both while jobs are at work and after a request to stop."""
    monkeypatch.setattr(runner, "SILENCE_AT_THE_END", math.inf)
    waiting = command.begin(math.inf)
    stopped, other = map(command.process, JOBS)
    os.kill(stopped, signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        waiting.result(timeout=2 * LIMIT)
    command.stop.number = signal.SIGINT
    with pytest.raises(TimeoutError):
        waiting.result(timeout=2 * LIMIT)
    assert [Path(f"/proc/{process}").exists() for process in (stopped, other)] == [True, False]
    os.kill(stopped, signal.SIGKILL)
    with pytest.raises(InterruptedRunError):
        waiting.result(timeout=60)


def test_a_command_that_is_asked_to_stop_ends_with_a_stopped_process(
    command: Command, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Sooner than it would give up while jobs are at work."""
    monkeypatch.setattr(runner, "SILENCE_AT_THE_END", LIMIT)
    waiting = command.begin(math.inf)
    stopped, _ = map(command.process, JOBS)
    os.kill(stopped, signal.SIGSTOP)
    command.stop.number = signal.SIGINT
    with pytest.raises(InterruptedRunError, match="stopped with every run at a checkpoint by SIGINT"):
        waiting.result(timeout=60)
    assert f"failed: its process {stopped} had been silent since" in capfd.readouterr().err


@pytest.mark.parametrize("command", [f"time.sleep({2 * LIMIT})"], indirect=True)
def test_a_process_that_does_not_beat_is_silent(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The known-wrong twin of one with a slow step."""
    mute = [part.replace("keep_in_touch();", "") for part in runner.command(JOBS[0], Places(Path(), Path()))]
    monkeypatch.setattr(runner, "command", lambda job, places: [*mute[:-1], str(command.folder / job.name)])
    assert list(command.begin(LIMIT).result(timeout=60)) == JOBS


SUSPENDED = """
import sys
from pathlib import Path
from jsa.experiments import runner
from jsa.experiments.jobs import Job, Places

folder, program = Path(sys.argv[1]), sys.argv[2]
job = Job("table1", "linear", "jsa", "short", 0)
runner.command = lambda job, places: [sys.executable, "-c", program, str(folder / job.name)]
places = Places(folder / "runs", folder / "results")
print(runner.run_jobs([job], places, 1, runner.Lines([job], places, sys.stderr), silence=float(sys.argv[3])))
"""


def test_a_command_that_was_suspended_with_its_processes_goes_on(tmp_path: Path) -> None:
    """Also if it wakes up before them, and finds no heartbeat."""
    program = f"{SAYING} time.sleep({3 * LIMIT})"
    arguments = [sys.executable, "-c", SUSPENDED, str(tmp_path), program, str(LIMIT)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        worker = Command(tmp_path, None).process(JOBS[0])  # type: ignore[arg-type]
        for each in (process.pid, worker):
            os.kill(each, signal.SIGSTOP)
        time.sleep(2 * LIMIT)
        os.kill(process.pid, signal.SIGCONT)
        time.sleep(LIMIT / 2)
        os.kill(worker, signal.SIGCONT)
        assert process.communicate(timeout=60)[0] == "{}\n"


def test_a_process_in_a_debugger_may_be_silent(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    debugged: set[int] = set()
    monkeypatch.setattr(runner, "_has_debugger", lambda process: process in debugged)
    waiting = command.begin(LIMIT)
    stopped, _ = map(command.process, JOBS)
    debugged.add(stopped)
    os.kill(stopped, signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        waiting.result(timeout=2 * LIMIT)
    debugged.clear()
    command.stop.number = signal.SIGINT
    with pytest.raises(InterruptedRunError):
        waiting.result(timeout=60)


def test_a_debugger_is_noticed() -> None:
    traced = "import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0); "  # PTRACE_TRACEME
    for before, expected in (("", False), (traced, True)):
        code = f"import sys; {before} print(flush=True); sys.stdin.read()"
        given: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([sys.executable, "-c", code], **given) as process:
            assert process.stdout is not None
            process.stdout.readline()
            assert runner._has_debugger(process.pid) == expected
            process.kill()
    assert not runner._has_debugger(process.pid)
