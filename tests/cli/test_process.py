"""A command as a process: closed and full streams, files that may have no content, Ctrl-C again and again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

STORM = 30


def shell(command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""}
    return subprocess.run(
        ["bash", "-c", command.replace("jsa", f"{sys.executable} -m jsa", 1)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )


CLOSED = "jsa: standard output is closed: open it, for instance by > /dev/null\n"
FULL = "jsa: standard output cannot be written (No space left on device)\n"


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        *((f"jsa {words} >&-", 2, CLOSED) for words in ("--help", "list data", "train --help", "trian")),
        *((f"jsa {words} >&- 2>&-", 2, "") for words in ("--help", "list data")),
        *((f"jsa {words} 2>&-", 0, "") for words in ("--help", "list data")),
        *((f"jsa {words} > /dev/full", 1, FULL) for words in ("--help", "--version", "list data")),
        ("jsa train --help > /dev/full", 1, "jsa: No space left on device\n"),
        *((f"jsa {words} > /dev/full 2>&1", 1, "") for words in ("--help", "list data")),
        ("jsa trian 2> /dev/full", 2, ""),
    ],
)
def test_streams_that_cannot_be_written(command: str, code: int, said: str) -> None:
    done = shell(command)
    assert (done.returncode, done.stderr) == (code, said)


def test_no_file_takes_the_place_of_a_closed_stream(tmp_path: Path, run_folder: Path) -> None:
    done = shell(f"jsa report {run_folder} --out {tmp_path}/page.html 2>&- <&-")
    assert done.returncode == 0
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!")


def test_files_that_may_have_no_content(tmp_path: Path, table: Path) -> None:
    done = shell(f"ulimit -f 0; jsa train --data {table} --model linear --latents 3 --epochs 1 --out {tmp_path}/run")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(
        "File too large, for the shell limits the size of files: raise ulimit -f"
    )
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("moment", ["start", "training", "end"])
def test_a_storm_of_interrupts_is_one(tmp_path: Path, table: Path, moment: str) -> None:
    run = tmp_path / "run"
    flags = ["--model", "linear", "--latents", "4", "--threads", "1", "--epochs", "2" if moment == "end" else "4000"]
    command = [sys.executable, "-m", "jsa", "train", "--data", str(table), *flags, "--out", str(run)]
    # A background shell starts its programs with Ctrl-C ignored, and they inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    awaited = {"start": tmp_path, "training": run / "metrics.jsonl", "end": run / "curves.png"}[moment]
    end = time.monotonic() + 100
    while not awaited.exists() and program.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    if moment == "start":
        time.sleep(0.8)
    for _ in range(STORM):
        if program.poll() is None:
            program.send_signal(signal.SIGINT)
            time.sleep(0.02)
    _, said = program.communicate(timeout=100)
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    if moment == "end":
        # The interpreter may have had nothing left to stop.
        assert program.returncode in (0, 130, -signal.SIGINT)
        return
    # A shell shows the death by this signal as 130, too.
    assert program.returncode in (130, -signal.SIGINT)
    last = said.splitlines()[-1]
    if moment == "training":
        assert last.endswith(f"by SIGINT; continue with: jsa resume {run}")
        assert (run / "state.safetensors").is_file()
        assert not list(run.rglob("*.part"))
    else:
        assert last == "jsa: stopped"
        assert not run.exists()
