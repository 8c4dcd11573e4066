"""An analyst with a table of their own: what was read, and the table that changed since the training."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.own_tables import COMMANDS, SIZES, refused, save, spelled
from helpers.small_runs import patterned
from jsa.cli import main
from jsa.data import DynamicBinarization, Splits, loading

# The table changed since the training


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "sample"])
@pytest.mark.parametrize(
    "values", [spelled(200, start=7), spelled(200)[:, :9], spelled(180)], ids=["rows", "columns", "fewer"]
)
def test_a_table_that_changed_is_refused(
    run: Path, capsys: pytest.CaptureFixture[str], command: str, values: np.ndarray
) -> None:
    save(Path("d/t.csv"), values)
    said = refused(command, capsys)
    assert said.startswith("jsa: d/t.csv is not the table that the run was trained on: give the run its data back")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_that_is_the_same_is_taken(run: Path, command: str) -> None:
    assert main([command, "run", *COMMANDS[command]]) == 0


def test_other_test_rows_are_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(Path("d/other.csv"), spelled(30, start=200))
    assert main(["train", "--data", "d/t.csv", "--test-file", "d/other.csv", *SIZES, "--out", "run"]) == 0
    save(Path("d/other.csv"), spelled(30, start=300))
    said = refused("evaluate", capsys)
    assert said.startswith("jsa: d/other.csv does not hold the test rows that the run had: give the run its data back")


def test_a_run_of_an_earlier_version_is_taken_as_it_is(run: Path) -> None:
    (run / "data.json").unlink()
    assert main(["evaluate", "run", "--samples", "5"]) == 0


def test_a_damaged_note_about_the_data_is_one_sentence(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "data.json").write_text('{"started_in": "/", "train": 3}')
    assert main(["evaluate", "run"]) == 2
    assert capsys.readouterr().err.startswith("jsa: run/data.json: ")


def test_rows_that_are_drawn_anew_are_recognized(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def small(turned: int) -> Splits:
        gray = torch.randint(0, 256, (60, 8), generator=torch.Generator().manual_seed(3), dtype=torch.uint8)
        train = DynamicBinarization(gray ^ turned, seed=0)
        return Splits("mnist-dynamic", train, patterned(20, 1), patterned(20, 2))

    monkeypatch.setitem(loading.BUILDERS, "mnist-dynamic", lambda data_dir, seed: small(0))
    assert main(["train", "--data", "mnist-dynamic", *SIZES, "--switch-epoch", "2", "--out", "run"]) == 0
    assert main(["evaluate", "run", "--split", "train", "--samples", "5"]) == 0
    monkeypatch.setitem(loading.BUILDERS, "mnist-dynamic", lambda data_dir, seed: small(255))
    assert "mnist-dynamic is not the data that the run was trained on" in refused("evaluate", capsys)


def test_a_run_is_not_continued_with_another_table(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "evaluation.json").unlink()
    before = (run / "data.json").read_text()
    save(Path("d/t.csv"), spelled(200, start=7))
    assert main(["train", "--resume", "run"]) == 1
    assert "d/t.csv is not the table that the run was trained on" in capsys.readouterr().err
    assert (run / "data.json").read_text() == before
    assert not (run / "evaluation.json").exists()


@pytest.mark.parametrize("left", [{"config.json"}, {"config.json", "data.json"}])
def test_a_run_that_begins_again_may_do_so_with_a_mended_table(
    run: Path, capsys: pytest.CaptureFixture[str], left: set[str]
) -> None:
    for path in run.iterdir():
        if path.name not in left:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    save(Path("d/t.csv"), spelled(200, start=7))
    assert main(["train", "--resume", "run"]) == 0
    assert main(["evaluate", "run", "--samples", "5"]) == 0
    save(Path("d/t.csv"), spelled(200))
    assert "d/t.csv is not the table that the run was trained on" in refused("evaluate", capsys)


# What was read


def read_line(capsys: pytest.CaptureFixture[str], table: str, *flags: str) -> list[str]:
    capsys.readouterr()
    assert main(["train", "--data", table, *SIZES, "--epochs", "1", *flags]) == 0
    return capsys.readouterr().err.splitlines()


def test_training_says_what_it_read(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line, *others = read_line(capsys, "d/t.csv")
    assert line == "read t.csv: 160 training rows, 20 validation rows, 20 test rows; 12 columns, binary"
    assert not any(other.startswith("note: ") for other in others)
    save(Path("d/classes.csv"), spelled(200) + spelled(200, start=1))
    line, *others = read_line(capsys, "d/classes.csv")
    assert line.endswith("; 12 columns, 3 classes")
    assert not any(other.startswith("note: ") for other in others)


@pytest.mark.parametrize(("schedule", "noted"), [("constant", True), ("cosine", False)])
def test_a_run_that_ends_too_early_says_so(
    home: Path, capsys: pytest.CaptureFixture[str], schedule: str, noted: bool
) -> None:
    assert main(["train", "--data", "d/t.csv", *SIZES, "--schedule", schedule, "--out", "run"]) == 0
    shown = capsys.readouterr().out
    assert "best epoch 2," in shown
    assert ("note: the last epoch was the best one: more --epochs" in shown) == noted


def test_an_index_column_is_noted(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = "," + ",".join("abcdefghijkl")
    save(Path("d/index.csv"), np.column_stack([np.arange(200), spelled(200)]), header)
    line, note, *_ = read_line(capsys, "d/index.csv")
    assert line.endswith("; 13 columns, 200 classes")
    assert note == (
        "note: values above 1 stand only in column 1 of d/index.csv and give every column 200 classes: remove from the "
        "table what is no variable, row numbers for instance, or check the table with --data-classes 2"
    )


def test_a_header_of_numbers_is_noted(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(Path("d/header.csv"), spelled(200), header=",".join(map(str, range(12))))
    line, note, *_ = read_line(capsys, "d/header.csv")
    assert line.endswith("161 training rows, 20 validation rows, 20 test rows; 12 columns, 12 classes")
    assert note == (
        "note: values above 1 stand only in the first row of d/header.csv and give every column 12 classes: remove "
        "that row if it is a header, or check the table with --data-classes 2"
    )


# Sentences


def test_one_column_cannot_be_conditioned_on(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(Path("d/one.csv"), spelled(50)[:, :1])
    assert main(["train", "--data", "d/one.csv", "--model", "structured"]) == 2
    assert capsys.readouterr().err == (
        "jsa: rows of 1 column cannot be divided into a context and the rest: a conditional model, such as structured, "
        "needs 2 columns or more\n"
    )


def test_a_tiny_table_is_answered_with_what_to_give(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(Path("d/tiny.csv"), spelled(5))
    assert main(["train", "--data", "d/tiny.csv", *SIZES]) == 1
    said = capsys.readouterr().err
    assert "--valid-fraction" in said
    assert "--valid-file" in said
