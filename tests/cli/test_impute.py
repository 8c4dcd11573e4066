"""Tables with missing values, from training to the table that is filled in."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from helpers.block_tables import blocks
from jsa.cli import main

SIZES = ["--model", "linear", "--latents", "4", "--epochs", "80", "--learning-rate", "0.03", "--threads", "1"]
NAMES = [f"question {number}" for number in range(12)]


def save(path: Path, values: np.ndarray, gaps: np.ndarray) -> Path:
    cells = np.where(gaps, "", values.astype(str))
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([NAMES, *cells.tolist()])
    return path


def read(path: Path) -> np.ndarray:
    with path.open(newline="") as file:
        names, *rows = csv.reader(file)
    assert names == NAMES
    return np.array(rows).astype(int)


def answers(seed: int, rows: int = 300, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Answers, and which of them are missing: at most three of the four of a block."""
    values = blocks(rows, seed, classes)
    gaps = np.random.default_rng(seed).random(values.shape) < 0.2
    gaps[:, ::4] = False
    return values, gaps


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a table with gaps, in ``run``."""
    folder = tmp_path_factory.mktemp("answers")
    save(folder / "answers.csv", *answers(0))
    assert main(["train", "--data", str(folder / "answers.csv"), *SIZES, "--out", str(folder / "run")]) == 0
    return folder


def test_training_counts_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values, gaps = answers(0)
    table = save(tmp_path / "answers.csv", values, gaps)
    assert main(["train", "--data", str(table), *SIZES, "--epochs", "1", "--out", str(tmp_path / "run")]) == 0
    share = f"12 columns, binary; {gaps.sum()} values missing ({gaps.mean():.1%})"
    assert share in capsys.readouterr().err
    assert json.loads((tmp_path / "run" / "data.json").read_text())["shape"]["missing"] is True


def test_what_is_missing_is_found_by_what_is_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values, gaps = answers(1)
    save(folder / "new.csv", values, gaps)
    assert main(["impute", str(folder / "run"), "--data", str(folder / "new.csv")]) == 0
    out = folder / "run" / "imputed-new.csv"
    incomplete = gaps.any(1).sum()
    assert f"{gaps.sum()} missing values of {incomplete} rows filled in: {out} (exact)" in capsys.readouterr().out
    found = read(out)
    assert np.array_equal(found[~gaps], values[~gaps])
    # One in forty of a block is disturbed; a guess would find one half.
    assert (found == values)[gaps].mean() > 0.9


def test_draws_vary_and_probabilities_are_told(folder: Path) -> None:
    values, gaps = answers(2)
    table = str(save(folder / "new.csv", values, gaps))
    drawn = []
    for seed in ("0", "0", "1"):
        out = folder / "drawn.csv"
        flags = ["--data", table, "--draw", "--seed", seed, "--out", str(out)]
        assert main(["impute", str(folder / "run"), *flags]) == 0
        drawn.append(read(out))
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])
    assert all(np.array_equal(one[~gaps], values[~gaps]) for one in drawn)
    out = folder / "imputed.npz"
    assert main(["impute", str(folder / "run"), "--data", table, "--out", str(out)]) == 0
    with np.load(out) as file:
        assert np.array_equal(file["missing"], gaps)
        assert np.array_equal(file["x"], file["mean"] > 0.5)
        certain = np.maximum(file["mean"], 1 - file["mean"])[gaps]
    # What is said to be probable comes true so often: some 550 values.
    right = (drawn[0] == drawn[2])[gaps].mean()
    assert abs(right - (certain**2 + (1 - certain) ** 2).mean()) < 0.1


@pytest.mark.parametrize("command", [["evaluate", "--samples", "5"], ["encode"], ["describe", "--rows", "10"]])
def test_other_commands_take_the_run(folder: Path, command: list[str]) -> None:
    name, *flags = command
    assert main([name, str(folder / "run"), *flags]) == 0


def test_a_table_with_other_gaps_is_another_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "answers.csv").read_text()
    values, gaps = answers(0)
    gaps[3, 0] = True
    save(folder / "answers.csv", values, gaps)
    try:
        assert main(["evaluate", str(folder / "run"), "--samples", "5"]) == 1
    finally:
        (folder / "answers.csv").write_text(text)
    assert "is not the table that the run was trained on" in capsys.readouterr().err


@pytest.mark.parametrize("classes", [2, 3])
def test_a_context_may_stand_before_the_gaps(tmp_path: Path, classes: int) -> None:
    values, gaps = answers(0, rows=60, classes=classes)
    gaps[:, :6] = False
    table = str(save(tmp_path / "answers.csv", values, gaps))
    sizes = ["--model", "structured", "--latents", "3", "--hidden", "4", "--epochs", "2", "--threads", "1"]
    assert main(["train", "--data", table, *sizes, "--out", str(tmp_path / "run")]) == 0
    assert main(["impute", str(tmp_path / "run"), "--data", table, "--out", str(tmp_path / "new.csv")]) == 0
    found = read(tmp_path / "new.csv")
    assert np.array_equal(found[~gaps], values[~gaps])
    assert found.max() < classes
    assert main(["impute", str(tmp_path / "run"), "--data", table, "--out", str(tmp_path / "new.npz")]) == 0
    with np.load(tmp_path / "new.npz") as file:
        assert np.array_equal(file["missing"], gaps)
        assert np.array_equal(file["x"], found)
        assert file["mean"].shape == (60, 6 if classes == 2 else 18)


@pytest.mark.parametrize(
    ("flags", "code", "sentence"),
    [
        ([], 2, "--data"),
        (["--data", "full.csv"], 2, "full.csv has no missing values: there is nothing to fill in"),
        (["--data", "nowhere.csv"], 1, "nowhere.csv cannot be read"),
        (["--data", "new.csv", "--samples", "0"], 2, "samples is 1 or more, not 0"),
        (
            ["--data", "new.csv", "--out", "../answers0/new.csv"],
            2,
            "--out would overwrite new.csv: choose another file",
        ),
        (["--data", "new.csv", "--out", "new.txt"], 2, "new.txt must end in .csv for a table or .npz for arrays"),
    ],
)
def test_what_cannot_be_filled_in_is_said(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    code: int,
    sentence: str,
) -> None:
    monkeypatch.chdir(folder)
    values, gaps = answers(1, rows=5)
    save(Path("full.csv"), values, np.zeros_like(gaps))
    save(Path("new.csv"), values, gaps)
    try:
        found = main(["impute", "run", *flags])
    except SystemExit as error:
        found = error.code
    assert found == code
    assert sentence in capsys.readouterr().err


def test_samples_tell_how_far_to_trust_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = str(save(folder / "new.csv", *answers(1)))
    for seed in ("1", "2"):
        assert main(["impute", str(folder / "run"), "--data", table, "--samples", "10", "--draw", "--seed", seed]) == 0
        assert re.search(
            r"imputed-new-seed\d\.csv; effective sample size \d\.\d of 10, at least", capsys.readouterr().out
        )
    assert len(list((folder / "run").glob("imputed-new-seed*.csv"))) == 2


def test_a_run_of_complete_rows_takes_gaps(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("new.csv").write_text("0,1,0,1,0,1,0,1,0,1,0,1\n" + "," * 11 + "1\n")
    for command in ("impute", "evaluate", "encode"):
        assert main([command, "run", "--data", "new.csv"]) == 0
    assert len(Path("run/imputed-new.csv").read_text().splitlines()) == 3
