"""``jsa train --resume`` as a user meets it."""

import json
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

import jsa.runs.run
from jsa.cli import main
from jsa.io.lock import locked
from jsa.training.loop import train
from jsa.training.signals import StopRequest
from torture.kills import differences

FLAGS = ["--model", "linear", "--latents", "3", "--epochs", "4", "--batch-size", "20", "--threads", "1"]
FLAGS += ["--validate-every", "2", "--validation-samples", "5", "--test-samples", "5"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    np.savetxt(folder / "mine.csv", np.random.default_rng(0).integers(0, 2, (75, 6)), fmt="%d", delimiter=",")
    assert main(["train", "--data", str(folder / "mine.csv"), *FLAGS, "--out", str(folder / "run")]) == 0
    return folder / "run"


@pytest.fixture
def stopped(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same run, stopped at its fifth step."""
    path = tmp_path / "run"
    stop_at(5, monkeypatch)
    assert main(["train", "--data", str(whole.parent / "mine.csv"), *FLAGS, "--out", str(path)]) == 143
    monkeypatch.undo()
    return path


def stop_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal comes at this step of the training."""

    def stopping(*arguments: object) -> object:
        watcher, stop = arguments[-2:]
        assert isinstance(stop, StopRequest)
        made, count = watcher.step, iter(range(1, 1000))

        def counted(epoch: int) -> None:
            made(epoch)
            if next(count) == step:
                stop.number = signal.SIGTERM

        watcher.step = counted
        return train(*arguments)

    monkeypatch.setattr(jsa.runs.run, "train", stopping)


def test_a_stopped_run_goes_on_to_the_same_end(whole: Path, stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not (stopped / "evaluation.json").exists()
    capsys.readouterr()
    assert main(["train", "--resume", str(stopped)]) == 0
    assert "best epoch" in capsys.readouterr().out
    assert differences(whole, stopped) == []
    assert (stopped / "config.json").read_text() == (whole / "config.json").read_text()


def test_a_finished_run_gives_its_figures(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in whole.iterdir() if path.is_file()}
    assert main(["train", f"--resume={whole}"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"the run {whole} is finished\nbest epoch ")
    nll = json.loads((whole / "evaluation.json").read_text())["test"]["nll"]
    assert f"test NLL {nll:.3f}" in shown
    assert {path.name: path.stat().st_mtime_ns for path in whole.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("missing", [["evaluation.json", "samples.csv", "curves.png"], ["samples.csv"]])
def test_what_is_missing_behind_the_training_is_made(whole: Path, tmp_path: Path, missing: list[str]) -> None:
    shutil.copytree(whole, tmp_path / "run")
    for name in missing:
        (tmp_path / "run" / name).unlink()
    assert main(["train", "--resume", str(tmp_path / "run")]) == 0
    assert differences(whole, tmp_path / "run") == []


def test_a_signal_in_the_test_is_honored(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(whole, tmp_path / "run")
    (tmp_path / "run" / "evaluation.json").unlink()
    monkeypatch.setattr(StopRequest, "__init__", lambda self: setattr(self, "number", signal.SIGINT))
    assert main(["train", "--resume", str(tmp_path / "run")]) == 130
    assert "stopped behind the training by SIGINT; continue with: jsa train --resume" in capsys.readouterr().err
    monkeypatch.undo()
    assert main(["train", "--resume", str(tmp_path / "run")]) == 0
    assert differences(whole, tmp_path / "run") == []


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(whole / "config.json", run)
    (run / "metrics.jsonl").write_text('{"epoch": 1')
    assert main(["train", "--resume", str(run)]) == 0
    assert differences(whole, run) == []


def test_the_two_settings_that_may_change_are_recorded(stopped: Path) -> None:
    arguments = ["--learning-rate", "0.0001", "--non-finite", "skip"]
    assert main(["train", "--resume", str(stopped), *arguments]) == 0
    optimization = json.loads((stopped / "config.json").read_text())["optimization"]
    assert (optimization["learning_rate"], optimization["non_finite"]) == (0.0001, "skip")
    lines = [json.loads(line) for line in (stopped / "metrics.jsonl").read_text().splitlines()]
    assert [line["learning_rate"] for line in lines] == [0.0003, 0.0001, 0.0001, 0.0001]
    assert ["skipped" in line for line in lines] == [False, True, True, True]


def exit_code(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)


@pytest.mark.parametrize(
    ("flags", "code", "sentence"),
    [
        (["--epochs", "9"], 2, "so --epochs cannot be given: only --learning-rate and --non-finite may be others"),
        (["--out", "elsewhere"], 2, "so --out cannot be given"),
        (["--non-finite", "perhaps"], 2, "invalid choice: 'perhaps'"),
        (["--learning-rate", "-1"], 2, "the learning rate must be positive"),
    ],
)
def test_what_cannot_be_changed_is_said(
    stopped: Path, capsys: pytest.CaptureFixture[str], flags: list[str], code: int, sentence: str
) -> None:
    before = {path.name: path.read_bytes() for path in stopped.iterdir() if path.is_file()}
    assert exit_code(["train", "--resume", str(stopped), *flags]) == code
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert "Traceback" not in captured.err
    assert {path.name: path.read_bytes() for path in stopped.iterdir() if path.is_file()} == before


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--resume", str(tmp_path)]) == 1
    assert "is not a run folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_two_at_once_are_one_too_many(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with locked(stopped):
        assert main(["train", "--resume", str(stopped)]) == 2
    assert "is in use by process" in capsys.readouterr().err
