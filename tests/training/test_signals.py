"""Ctrl-C and SIGTERM, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from helpers.small_runs import differences, small_config, trained
from jsa.cli import main
from jsa.runs.config import MachineConfig
from jsa.runs.folder import RunFolder
from jsa.training.config import CheckpointConfig, StageConfig
from jsa.training.signals import StopRequest, StopRequestedError

FLAGS = ["--model", "linear", "--latents", "4", "--threads", "1", "--validation-samples", "5", "--test-samples", "5"]


@pytest.fixture(autouse=True)
def signals_are_not_ignored() -> Iterator[None]:
    """A shell starts what it runs in the background with Ctrl-C ignored, and a program inherits that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop = StopRequest()
    with stop.listening():
        os.kill(os.getpid(), signal.SIGINT)
        stop.check()
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def table(path: Path) -> Path:
    np.savetxt(path, np.random.default_rng(0).integers(0, 2, (100, 6)), fmt="%d", delimiter=",")
    return path


def started(path: Path, *flags: str) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-m", "jsa", "train", "--data", str(table(path / "mine.csv")), *FLAGS, *flags]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*arguments, "--out", str(path / "run")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def wait_for_training(path: Path) -> None:
    end = time.monotonic() + 60
    while not (path / "run" / "metrics.jsonl").exists():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_the_run_and_says_how_to_continue(
    tmp_path: Path, number: signal.Signals, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    with started(tmp_path, "--epochs", "400") as program:
        wait_for_training(tmp_path)
        program.send_signal(number)
        output, errors = program.communicate(timeout=60)
    assert program.returncode == code
    assert output == ""
    last = errors.splitlines()[-1]
    assert last.startswith("jsa: stopped at step ")
    assert last.endswith(f"by {number.name}; continue with: jsa resume {run}")
    assert "Traceback" not in errors
    assert (run / "state.safetensors").is_file()
    assert not (run / "lock").exists()
    if number == signal.SIGTERM:
        # Said in the words of the run, and nothing else may be changed.
        assert main(["resume", str(run), "--batch-size", "3"]) == 2
        assert "Unrecognized options: --batch-size" in capsys.readouterr().err


def test_a_signal_is_taken_once_and_handlers_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    stop = StopRequest()
    with stop.listening():
        stop.check()
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(StopRequestedError):
            stop.check()
        # A storm of them is one request.
        os.kill(os.getpid(), signal.SIGINT)
        # A later one is what it always was.
        monkeypatch.setattr("jsa.training.signals.STORM_SECONDS", 0.0)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("count", [1, 2, 6, 13])
def test_a_second_signal_corrupts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, on_disk: bool
) -> None:
    """It comes as a KeyboardInterrupt in the middle of writing, here while a file is flushed."""
    config = small_config(
        epochs=2,
        batch_size=40,
        stages=StageConfig(switch_epoch=1),
        checkpoints=CheckpointConfig(checkpoint_seconds=0),
        machine=MachineConfig(threads=1, chains_on_disk=on_disk),
    )
    trained(tmp_path / "whole", config)
    left = count
    flush = os.fsync

    def impatient(descriptor: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", impatient)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "run", config)
    monkeypatch.undo()
    RunFolder(tmp_path / "run").prepare_to_continue()
    # What goes on may be built from another seed; what begins again may not.
    trained(tmp_path / "run", config, seed=3 if (tmp_path / "run" / "state.safetensors").exists() else 0)
    assert differences(tmp_path / "whole", tmp_path / "run") == []


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        stop = StopRequest()
        with stop.listening():
            os.kill(os.getpid(), signal.SIGINT)
            stop.check()
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_leaves_the_handlers_alone() -> None:
    found = []

    def look() -> None:
        with StopRequest().listening():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]


def test_an_evaluation_can_be_left() -> None:
    stop = StopRequest()
    seen: list[int] = []
    progress = stop.interrupting(seen.append)
    progress(3)
    stop.number = signal.SIGTERM
    with pytest.raises(StopRequestedError):
        progress(4)
    assert seen == [3]
    assert stop.interrupted("here", "try again").exit_code == 143
