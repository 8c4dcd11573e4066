"""Whatever stands where a file should be is refused in a sentence, and nothing is left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.terminal import Terminal

COMMANDS = (
    ("train --data {}.csv", 1),
    ("train --data {}.npy", 1),
    ("train --data {}.npz", 1),
    ("train --data d/t.csv --valid-file {}.npy", 1),
    ("train --data d/t.csv --test-file {}.csv", 1),
    ("train --data {}.csv --data-dir there", 1),
    ("train --config {}.json", 2),
    ("evaluate run --data {}.npz", 1),
    ("encode run --data {}.csv", 1),
    ("impute run --data {}.npy", 1),
)
OUTPUTS = ("evaluate run --json", "evaluate run --out", "encode run --out", "sample run --out", "report run --out")
SUFFIXES = ("csv", "npy", "npz", "json")


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """Whoever reads a pipe waits for ever."""

    def late(number: int, frame: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def odd(run: Path) -> Path:
    """The folder of the run, with pipes and devices of all names."""
    (run.parent / "there").mkdir()
    for suffix in SUFFIXES:
        os.mkfifo(f"pipe.{suffix}")
        Path(f"device.{suffix}").symlink_to("/dev/zero")
        os.mkfifo(f"there/far.{suffix}")
    return run.parent


@pytest.mark.parametrize(("command", "code"), COMMANDS)
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("pipe", "cannot be read: a pipe is not a file: write what comes through it to one"),
        ("device", "cannot be read: a device is not a file"),
    ],
)
def test_pipes_and_devices_are_no_files(
    odd: Path, jsa: Terminal, command: str, code: int, name: str, sentence: str
) -> None:
    before = sorted(odd.rglob("*"))
    said = jsa.refuses(command.format(name), code=code)
    assert said.startswith(f"jsa: {name}.")
    assert said.endswith(f" {sentence}\n")
    assert said.count("\n") == 1
    assert sorted(odd.rglob("*")) == before


def test_a_pipe_in_the_data_folder_is_refused(odd: Path, jsa: Terminal) -> None:
    assert "there/far.csv cannot be read: a pipe is not a file" in jsa.refuses(
        "train --data far.csv --data-dir there", code=1
    )


@pytest.mark.parametrize("command", OUTPUTS)
def test_no_file_takes_the_place_of_a_pipe_or_a_device(odd: Path, jsa: Terminal, command: str) -> None:
    for name in ("pipe.npz", "device.npz") if "json" not in command else ("pipe.json", "device.json"):
        assert jsa.refuses(command, name).startswith(f"jsa: {name} is not a file: choose another --")
    assert Path("pipe.npz").is_fifo()
    assert Path("device.npz").is_symlink()


NOBODY = "~nobody-of-this-name/x"
PATHS = (
    *("train --data {}.csv", "train --data d/t.csv --valid-file {}.csv", "train --data d/t.csv --test-file {}.csv"),
    *("train --data d/t.csv --data-dir {}", "train --config {}.json", "train --data d/t.csv --out {}"),
    *("resume {}", "evaluate {}", "evaluate run --data {}.csv", "evaluate run --data-dir {}"),
    *("evaluate run --out {}.csv", "evaluate run --json {}.json", "sample run --out {}.csv", "encode run --out {}.csv"),
    *("impute run --data {}.csv", "describe run --out {}.npz", "variance run --json {}.json", "report {}"),
    *("report run --out {}.html", "report --results {}", "reproduce table1 --dry-run --runs {}"),
    *("reproduce table1 --dry-run --results {}", "reproduce table1 --dry-run --data {}.csv", "data fetch --folder {}"),
)


@pytest.mark.parametrize("command", PATHS)
def test_the_home_folder_of_nobody_is_refused(run: Path, jsa: Terminal, command: str) -> None:
    before = sorted(run.parent.iterdir())
    said = jsa.refuses(command.format(NOBODY))
    assert said.startswith(f"jsa: {NOBODY}")
    assert "begins with the home folder of a user that this machine does not know: check the path" in said
    assert said.count("\n") == 1
    assert sorted(run.parent.iterdir()) == before


def test_a_tilde_that_the_shell_left_is_the_home_folder(
    run: Path, jsa: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(run.parent))
    jsa("sample ~/run --count 3 --out=~/here.csv")
    assert (run.parent / "here.csv").is_file()
    assert not Path("~").exists()


DEVICES = ("meta", "cuda:99", "hpu", "privateuseone", "vulkan", "xla", "mkldnn", "cudaa", "cuda:-1", "''")


@pytest.mark.parametrize("device", DEVICES)
def test_a_device_that_cannot_be_used_is_refused(home: Path, jsa: Terminal, device: str) -> None:
    said = jsa.refuses("train --data d/t.csv --device", device)
    assert said.startswith(f"jsa: the device '{device.strip(chr(39))}' cannot be used here (")
    assert said.endswith("): choose another --device, such as cpu\n")
    assert said.count("\n") == 1
    assert [path.name for path in home.iterdir()] == ["d"]


def test_a_damaged_record_of_the_programs_is_not_continued(run: Path, jsa: Terminal) -> None:
    (run / "provenance.jsonl").write_bytes(b"\xff\xfe")
    (run / "evaluation.json").unlink()
    assert "provenance.jsonl is damaged" in jsa.refuses("resume run", code=1)
