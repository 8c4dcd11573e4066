"""The run folder: one process at a time, torn lines, leftovers, full disks."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from helpers.small_runs import DeadError, Dying, differences, new_folder, small_config, trained
from jsa.errors import CheckpointError, JsaError, UsageError
from jsa.io.lock import locked
from jsa.runs.config import RunConfig
from jsa.runs.folder import RunFolder
from jsa.training.config import CheckpointConfig, ValidationConfig
from jsa.training.signals import StopRequest

HOLD = "import sys, time\nfrom pathlib import Path\nfrom jsa.io.lock import locked\n"
HOLD += "with locked(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)\n"


def test_a_second_process_is_refused_and_a_dead_one_leaves_no_lock(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UsageError, match=f"{tmp_path} is in use by process {holder.pid}: wait"), locked(tmp_path):
            pass
        holder.kill()
    assert (tmp_path / "lock").exists()
    with locked(tmp_path), pytest.raises(UsageError, match=f"process {os.getpid()}"), locked(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_alone_is_nobodys_work(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("1\n")
    RunFolder(tmp_path).begin(RunConfig())
    with pytest.raises(UsageError, match="exists already"):
        RunFolder(tmp_path).begin(RunConfig())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": None}, "jsa 0.1.0 wrote it and reads it, while this version reads format 4"),
        ({"format": 9}, "has format 9 and this version of jsa reads 4: use the version that wrote it"),
        ({"epochs": None}, "the field epochs is missing: add it"),
    ],
)
def test_a_folder_of_another_format_is_refused(tmp_path: Path, change: dict[str, object], sentence: str) -> None:
    folder = new_folder(tmp_path / "run", RunConfig())
    record = json.loads(folder.config.read_text()) | change
    folder.config.write_text(json.dumps({name: value for name, value in record.items() if value is not None}))
    with pytest.raises(JsaError, match=sentence):
        RunFolder.open(folder.path)


def test_a_torn_line_is_not_read_and_is_written_over(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "run", RunConfig())
    length = folder.log({"epoch": 1, "objective": -3.0, "seconds": 1.0}, 0)
    whole = folder.log({"epoch": 2, "objective": -2.0, "seconds": 2.0}, length)
    os.truncate(folder.metrics, whole - 7)
    assert [record["epoch"] for record in folder.read_metrics()] == [1]
    folder.cut_metrics(length)
    folder.log({"epoch": 2, "objective": -2.5, "seconds": 2.0}, length)
    assert [record["objective"] for record in folder.read_metrics()] == [-3.0, -2.5]


def test_a_killed_run_leaves_nothing_that_disturbs(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "run", RunConfig())
    folder.chains.mkdir()
    for path in (folder.path / ".state.safetensors.x1.part", folder.chains / "chains.sqlite", folder.last):
        path.write_bytes(b"half")
    folder.prepare_to_continue()
    assert [path.name for path in folder.path.iterdir()] == ["config.json"]


def test_weights_without_a_state_are_not_deleted(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "run", RunConfig())
    folder.best.write_bytes(b"of an earlier version")
    with pytest.raises(CheckpointError, match=r"cannot be continued: begin a new run in another folder"):
        folder.prepare_to_continue()
    assert folder.best.exists()


@pytest.mark.parametrize("limit", [200, 9_000])
def test_a_full_disk_leaves_the_last_checkpoint_whole(tmp_path: Path, limit: int) -> None:
    """A limit on the size of files is what a full disk looks like to a program."""
    config = small_config(epochs=2, checkpoints=CheckpointConfig(checkpoint_seconds=0))
    trained(tmp_path / "whole", config)
    size = (tmp_path / "whole" / "state.safetensors").stat().st_size
    assert limit < size
    stop = StopRequest()
    with pytest.raises(DeadError):
        trained(tmp_path / "run", config, Dying(stop, 3), stop)
    kept = (tmp_path / "run" / "state.safetensors").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(CheckpointError) as caught:
            trained(tmp_path / "run", config)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    sentence = str(caught.value)
    assert "state.safetensors could not be written" in sentence
    assert "the checkpoint of step 2 is whole" in sentence
    assert sentence.endswith(f"continue with: jsa resume {tmp_path / 'run'}")
    assert (tmp_path / "run" / "state.safetensors").read_bytes() == kept
    assert not list((tmp_path / "run").glob(".*.part"))
    trained(tmp_path / "run", config)
    assert differences(tmp_path / "whole", tmp_path / "run") == []


def test_a_line_of_metrics_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = RunFolder.log

    def full(self: RunFolder, record: Mapping[str, object], start: int) -> int:
        if start == 0:
            return log(self, record, start)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.metrics))

    # The state is written before the files that follow from it.
    config = small_config(epochs=2, validation=ValidationConfig(validate_every=2))
    trained(tmp_path / "whole", config)
    monkeypatch.setattr(RunFolder, "log", full)
    with pytest.raises(CheckpointError, match=r"No space left .*metrics.jsonl.*checkpoint of step 10 is whole. Make"):
        trained(tmp_path / "run", config)
    monkeypatch.undo()
    trained(tmp_path / "run", config)
    assert differences(tmp_path / "whole", tmp_path / "run") == []
