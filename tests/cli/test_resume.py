"""``jsa resume`` as a user meets it."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.damage import untouched
from helpers.own_tables import save
from helpers.terminal import Terminal, exit_code, run_jsa
from jsa.io.lock import locked
from jsa.training.signals import StopRequest
from torture.kills import differences

FLAGS = "--model linear --latents 3 --epochs 4 --batch-size 20 --threads 1 "
FLAGS += "--validate-every 2 --validation-samples 5 --test-samples 5"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    table = save(folder / "mine.csv", np.random.default_rng(0).integers(0, 2, (75, 6)))
    run_jsa("train --data", table, FLAGS, "--out", folder / "run")
    return folder / "run"


@pytest.fixture
def copy(whole: Path, here: Path) -> Path:
    """The same run in the folder ``run`` to work in."""
    return Path(shutil.copytree(whole, here / "run"))


@pytest.fixture(scope="module")
def stopped_once(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, steps, step = tmp_path_factory.mktemp("stopped") / "run", iter(range(1, 1000)), torch.optim.Adam.step

    def fifth_is_stopped(optimizer: torch.optim.Adam) -> object:
        if next(steps) == 5:
            signal.raise_signal(signal.SIGTERM)
        return step(optimizer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.Adam, "step", fifth_is_stopped)
        assert exit_code("train --data", whole.parent / "mine.csv", FLAGS, "--out", path) == 143
    return path


@pytest.fixture
def stopped(stopped_once: Path, here: Path) -> Path:
    """The same run, stopped at its fifth step, in the folder ``run`` to work in."""
    return Path(shutil.copytree(stopped_once, here / "run"))


def test_a_stopped_run_goes_on_to_the_same_end(whole: Path, stopped: Path, jsa: Terminal) -> None:
    assert not (stopped / "evaluation.json").exists()
    assert "best epoch" in jsa("resume run").out
    assert differences(whole, stopped) == []
    assert (stopped / "config.json").read_text() == (whole / "config.json").read_text()


def test_a_finished_run_gives_its_figures(copy: Path, jsa: Terminal) -> None:
    with untouched(copy):
        shown = jsa("resume run").out
    assert shown.startswith("the run run is finished\nbest epoch ")
    nll = json.loads((copy / "evaluation.json").read_text())["test"]["nll"]
    assert f"test NLL {nll:.3f}" in shown


def test_the_lock_of_a_killed_process_is_removed_from_a_finished_run(copy: Path, jsa: Terminal) -> None:
    lock = copy / "lock"
    lock.touch()
    assert "is finished" in jsa("resume", copy).out
    assert not lock.exists()


@pytest.mark.parametrize("missing", [["evaluation.json", "samples.csv", "curves.png"], ["samples.csv"]])
def test_what_is_missing_behind_the_training_is_made(whole: Path, copy: Path, missing: list[str]) -> None:
    for name in missing:
        (copy / name).unlink()
    run_jsa("resume run")
    assert differences(whole, copy) == []


def test_a_signal_in_the_test_is_honored(
    whole: Path, copy: Path, monkeypatch: pytest.MonkeyPatch, jsa: Terminal
) -> None:
    (copy / "evaluation.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(StopRequest, "__init__", lambda self: setattr(self, "number", signal.SIGINT))
        said = jsa("resume run", code=130).err
    assert "stopped after training by SIGINT; continue with: jsa resume" in said
    run_jsa("resume run")
    assert differences(whole, copy) == []


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(whole: Path, here: Path) -> None:
    (here / "run").mkdir()
    shutil.copy(whole / "config.json", "run")
    Path("run/metrics.jsonl").write_text('{"epoch": 1')
    run_jsa("resume run")
    assert differences(whole, Path("run")) == []


def test_the_two_settings_that_may_change_are_recorded(stopped: Path) -> None:
    run_jsa("resume run --learning-rate 0.0001 --non-finite skip")
    optimization = json.loads((stopped / "config.json").read_text())["optimization"]
    assert (optimization["learning_rate"], optimization["non_finite"]) == (0.0001, "skip")
    lines = [json.loads(line) for line in (stopped / "metrics.jsonl").read_text().splitlines()]
    assert [line["learning_rate"] for line in lines] == [0.0003, 0.0001, 0.0001, 0.0001]
    assert ["skipped" in line for line in lines] == [False, True, True, True]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--epochs 9", "Unrecognized options: --epochs"),
        ("--out elsewhere", "Unrecognized options: --out"),
        ("--non-finite perhaps", "invalid choice 'perhaps'"),
        ("--learning-rate -1", "learning-rate must be above 0 and at most 10, not -1.0"),
    ],
)
def test_what_cannot_be_changed_is_said(stopped: Path, jsa: Terminal, flags: str, sentence: str) -> None:
    with untouched(stopped):
        assert sentence in jsa.refuses("resume run", flags)


def test_a_folder_that_is_no_run_is_refused(here: Path, jsa: Terminal) -> None:
    assert "is not a run folder" in jsa.refuses("resume .", code=1)
    assert list(here.iterdir()) == []


def test_two_at_once_are_one_too_many(stopped: Path, jsa: Terminal) -> None:
    with locked(stopped):
        assert "is in use by process" in jsa.refuses("resume run")
