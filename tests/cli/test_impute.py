"""Tables with missing values, from training to the table that is filled in."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from helpers.block_tables import blocks
from helpers.own_tables import read, save
from helpers.terminal import Terminal, run_jsa

SIZES = "--model linear --latents 4 --epochs 80 --learning-rate 0.03 --threads 1"
NAMES = [f"question {number}" for number in range(12)]


def save_answers(path: Path | str, values: np.ndarray, gaps: np.ndarray) -> Path:
    return save(path, np.where(gaps, np.nan, values), ",".join(NAMES))


def read_answers(path: str) -> np.ndarray:
    names, cells = read(path)
    assert names == NAMES
    return cells.astype(int)


def answers(seed: int, rows: int = 300, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Answers, and which of them are missing: at most three of the four of a block."""
    values = blocks(rows, seed, classes)
    gaps = np.random.default_rng(seed).random(values.shape) < 0.2
    gaps[:, ::4] = False
    return values, gaps


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run of a table with gaps, in ``run``."""
    folder = tmp_path_factory.mktemp("answers")
    table = save_answers(folder / "answers.csv", *answers(0))
    run_jsa("train --data", table, SIZES, "--out", folder / "run")
    return folder


def test_training_counts_what_is_missing(here: Path, jsa: Terminal) -> None:
    values, gaps = answers(0)
    save_answers("answers.csv", values, gaps)
    share = f"12 columns, binary; {gaps.sum()} values missing ({gaps.mean():.1%})"
    assert share in jsa("train --data answers.csv", SIZES, "--epochs 1 --out run").err
    assert json.loads(Path("run/identity.json").read_text())["shape"]["missing"] is True


def test_what_is_missing_is_found_by_what_is_there(folder: Path, jsa: Terminal) -> None:
    values, gaps = answers(1)
    save_answers("new.csv", values, gaps)
    filled = f"{gaps.sum()} missing values of {gaps.any(1).sum()} rows filled in: run/imputed-new.csv (exact)"
    assert filled in jsa("impute run --data new.csv").out
    found = read_answers("run/imputed-new.csv")
    assert np.array_equal(found[~gaps], values[~gaps])
    # One in forty of a block is disturbed; a guess would find one half.
    assert (found == values)[gaps].mean() > 0.9


def test_draws_vary_and_probabilities_are_told(folder: Path) -> None:
    values, gaps = answers(2)
    save_answers("new.csv", values, gaps)
    drawn = []
    for seed in (0, 0, 1):
        run_jsa("impute run --data new.csv --draw --out drawn.csv --seed", seed)
        drawn.append(read_answers("drawn.csv"))
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])
    assert all(np.array_equal(one[~gaps], values[~gaps]) for one in drawn)
    run_jsa("impute run --data new.csv --out imputed.npz")
    with np.load("imputed.npz") as file:
        assert np.array_equal(file["missing"], gaps)
        assert np.array_equal(file["x"], file["mean"] > 0.5)
        certain = np.maximum(file["mean"], 1 - file["mean"])[gaps]
    # What is said to be probable comes true so often: some 550 values.
    right = (drawn[0] == drawn[2])[gaps].mean()
    assert abs(right - (certain**2 + (1 - certain) ** 2).mean()) < 0.1


@pytest.mark.parametrize("command", ["evaluate run --samples 5", "encode run", "describe run --rows 10"])
def test_other_commands_take_the_run(folder: Path, command: str) -> None:
    run_jsa(command)


def test_a_table_with_other_gaps_is_another_table(folder: Path, jsa: Terminal) -> None:
    table = Path("answers.csv")
    text = table.read_text()
    values, gaps = answers(0)
    gaps[3, 0] = True
    save_answers(table, values, gaps)
    try:
        assert "is not the table that the run was trained on" in jsa.refuses("evaluate run", code=1)
    finally:
        table.write_text(text)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_context_may_stand_before_the_gaps(here: Path, classes: int) -> None:
    values, gaps = answers(0, rows=60, classes=classes)
    gaps[:, :6] = False
    save_answers("answers.csv", values, gaps)
    sizes = "--model structured --latents 3 --hidden 4 --epochs 2 --threads 1"
    run_jsa("train --data answers.csv", sizes, "--out run")
    for out in ("new.csv", "new.npz"):
        run_jsa("impute run --data answers.csv --out", out)
    found = read_answers("new.csv")
    assert np.array_equal(found[~gaps], values[~gaps])
    assert found.max() < classes
    with np.load("new.npz") as file:
        assert np.array_equal(file["missing"], gaps)
        assert np.array_equal(file["x"], found)
        assert file["mean"].shape == (60, 6 if classes == 2 else 18)


@pytest.mark.parametrize(
    ("flags", "code", "sentence"),
    [
        ("", 2, "--data"),
        ("--data full.csv", 2, "full.csv has no missing values: there is nothing to fill in"),
        ("--data nowhere.csv", 1, "nowhere.csv cannot be read"),
        ("--data new.csv --out ../answers0/new.csv", 2, "--out would overwrite new.csv: choose another file"),
        ("--data new.csv --out new.txt", 2, "new.txt must end in .csv for a table or .npz for arrays"),
    ],
)
def test_what_cannot_be_filled_in_is_said(folder: Path, jsa: Terminal, flags: str, code: int, sentence: str) -> None:
    values, gaps = answers(1, rows=5)
    save_answers("full.csv", values, np.zeros_like(gaps))
    save_answers("new.csv", values, gaps)
    assert sentence in jsa.refuses("impute run", flags, code=code)


def test_samples_tell_how_far_to_trust_them(folder: Path, jsa: Terminal) -> None:
    save_answers("new.csv", *answers(1))
    for seed in (1, 2):
        shown = jsa("impute run --data new.csv --samples 10 --draw --seed", seed).out
        assert re.search(rf"imputed-new-seed{seed}\.csv; effective sample size \d\.\d of 10, at least", shown)
        assert Path(f"run/imputed-new-seed{seed}.csv").is_file()


def test_a_run_of_complete_rows_takes_gaps(run: Path) -> None:
    Path("new.csv").write_text("0,1,0,1,0,1,0,1,0,1,0,1\n" + "," * 11 + "1\n")
    for command in ("impute", "evaluate", "encode"):
        run_jsa(command, "run --data new.csv")
    assert len(Path("run/imputed-new.csv").read_text().splitlines()) == 3
