"""Columns that have names: an analyst's tables agree about them, and what is written has them."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from helpers.own_tables import SIZES, read, save
from helpers.terminal import Terminal, run_jsa
from jsa.data.tables.table import TableOptions, table_splits
from jsa.errors import DataError

NAMES = "bread,butter,milk,soap"


def baskets(rows: int = 100, classes: int = 2) -> np.ndarray:
    return np.random.default_rng(0).integers(0, classes, (rows, 4))


@pytest.fixture
def run(here: Path) -> Path:
    """A run of a table with names."""
    save("t.csv", baskets(), NAMES)
    run_jsa("train --data t.csv", SIZES, "--out run")
    return here / "run"


@pytest.mark.parametrize("command", ["evaluate", "encode"])
def test_columns_in_another_order_are_refused(run: Path, jsa: Terminal, command: str) -> None:
    for header in (NAMES, ""):
        save("same.csv", baskets(7), header)
        run_jsa(command, "run --data same.csv")
    save("turned.csv", baskets(7)[:, ::-1], "soap,milk,butter,bread")
    sentence = "column 1 is called 'soap', but 'bread' in the data of the run: bring the columns into that order"
    assert sentence in jsa.refuses(command, "run --data turned.csv", code=1)


def test_all_tables_of_a_run_have_the_same_columns(tmp_path: Path) -> None:
    table = save(tmp_path / "t.csv", baskets(), NAMES)
    other = save(tmp_path / "o.csv", baskets(7), "butter,bread,milk,soap")
    with pytest.raises(DataError, match=r"o\.csv: column 1 is called 'butter', but 'bread' in .*t\.csv"):
        table_splits(table, TableOptions(test_file=other))


def test_other_names_are_another_table(run: Path, jsa: Terminal) -> None:
    assert "bread" in jsa("describe run --rows 20").out
    save("t.csv", baskets(), NAMES.replace("bread,butter", "butter,bread"))
    said = jsa.refuses("describe run --rows 20", code=1)
    assert "t.csv is not the table that the run was trained on: give the run its data back" in said


def test_a_header_that_cannot_be_used_is_mentioned(here: Path, jsa: Terminal) -> None:
    save("t.csv", baskets(), "bread,bread,milk,soap")
    written = jsa("train --data t.csv", SIZES, "--out run")
    assert "the header of t.csv has the name 'bread' twice, so that columns go by" in written.out + written.err


@pytest.mark.parametrize("model", ["linear", "structured"])
@pytest.mark.parametrize("classes", [2, 3])
def test_samples_are_a_table_like_that_of_the_run(here: Path, model: str, classes: int) -> None:
    save("t.csv", baskets(classes=classes), NAMES)
    run_jsa("train --data t.csv", SIZES, f"--model {model} --hidden 4 --out run")
    for out in ("", "--out same.npz"):
        run_jsa("sample run --count 8", out)
    splits = table_splits(Path("run/samples-0.csv"), TableOptions(classes=classes))
    assert splits.schema.column_names == tuple(NAMES.split(","))
    rows = np.loadtxt("run/samples-0.csv", delimiter=",", skiprows=1)
    with np.load("same.npz") as arrays:
        parts = [arrays[name] for name in ("context", "x") if name in arrays]
    assert len(parts) == (2 if model == "structured" else 1)
    assert np.array_equal(rows, np.concatenate(parts, axis=1))
    run_jsa("evaluate run --data run/samples-0.csv")


def test_draws_of_one_seed_are_no_states_of_another(run: Path) -> None:
    """They come from one stream of random numbers, of which a draw is never the start."""
    for seed in ("0", "1"):
        run_jsa(f"sample run --count 2000 --seed {seed} --out {seed}.npz")
    with np.load("0.npz") as first, np.load("1.npz") as second:
        x, h = first["x"].ravel()[:6000], second["h"].ravel()
    # It was 0.68 when the draws of one seed began with the random numbers of the next.
    assert abs(np.corrcoef(x, h)[0, 1]) < 0.1


@pytest.mark.parametrize("command", ["encode run --split all", "evaluate run --split valid --samples 5"])
def test_codes_and_likelihoods_as_tables(run: Path, command: str) -> None:
    for out in ("found.csv", "found.npz"):
        run_jsa(command, "--out", out)
    header, lines = read("found.csv")
    with np.load("found.npz") as arrays:
        found = dict(arrays)
    wide = {name: 1 if array.ndim == 1 else array.shape[1] for name, array in found.items()}
    labels = [[name] if width == 1 else [f"{name} {at + 1}" for at in range(width)] for name, width in wide.items()]
    assert header == list(itertools.chain(*labels))
    assert np.array_equal(lines[:, 0].astype(int), found["rows"])
    last = "mean" if "mean" in found else "effective_sample_size"
    assert np.allclose(lines[:, -1].astype(float), found[last].reshape(len(lines), -1)[:, -1])
