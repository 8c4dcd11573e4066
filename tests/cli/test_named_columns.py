"""Columns that have names: an analyst's tables agree about them, and what is written has them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from helpers.own_tables import SIZES, refused, save
from jsa.cli import main
from jsa.data.tables.table import TableOptions, table_splits
from jsa.errors import DataError

NAMES = "bread,butter,milk,soap"


def baskets(rows: int = 100, classes: int = 2) -> np.ndarray:
    return np.random.default_rng(0).integers(0, classes, (rows, 4))


@pytest.fixture
def run(home: Path) -> Path:
    """A run of a table with names."""
    save(home / "d" / "t.csv", baskets(), NAMES)
    assert main(["train", "--data", "d/t.csv", *SIZES, "--out", "run"]) == 0
    return home / "run"


@pytest.mark.parametrize("command", ["evaluate", "encode"])
def test_columns_in_another_order_are_refused(run: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    save(Path("d/same.csv"), baskets(7), NAMES)
    assert main([command, "run", "--data", "d/same.csv"]) == 0
    save(Path("d/nameless.csv"), baskets(7))
    assert main([command, "run", "--data", "d/nameless.csv"]) == 0
    save(Path("d/turned.csv"), baskets(7)[:, ::-1], "soap,milk,butter,bread")
    sentence = refused(command, capsys, "--data", "d/turned.csv")
    assert (
        "column 1 is called 'soap', but 'bread' in the data of the run: bring the columns into that order" in sentence
    )


def test_all_tables_of_a_run_have_the_same_columns(tmp_path: Path) -> None:
    table = save(tmp_path / "t.csv", baskets(), NAMES)
    other = save(tmp_path / "o.csv", baskets(7), "butter,bread,milk,soap")
    with pytest.raises(DataError, match=r"o\.csv: column 1 is called 'butter', but 'bread' in .*t\.csv"):
        table_splits(table, TableOptions(test_file=other))


def test_names_are_those_that_were_learned_from(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = shown(capsys)
    text = Path("d/t.csv").read_text()
    Path("d/t.csv").write_text(text.replace("bread,butter", "butter,bread"))
    assert shown(capsys) == before


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["describe", "run", "--rows", "20"]) == 0
    return capsys.readouterr().out


def test_a_header_that_cannot_be_used_is_mentioned(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(home / "d" / "t.csv", baskets(), "bread,bread,milk,soap")
    assert main(["train", "--data", "d/t.csv", *SIZES, "--out", "run"]) == 0
    written = capsys.readouterr()
    assert "the header of d/t.csv has the name 'bread' twice, so that columns go by" in written.out + written.err


@pytest.mark.parametrize("model", ["linear", "structured"])
@pytest.mark.parametrize("classes", [2, 3])
def test_samples_are_a_table_like_that_of_the_run(home: Path, model: str, classes: int) -> None:
    save(home / "d" / "t.csv", baskets(classes=classes), NAMES)
    assert main(["train", "--data", "d/t.csv", *SIZES, "--model", model, "--hidden", "4", "--out", "run"]) == 0
    assert main(["sample", "run", "--count", "8"]) == 0
    assert main(["sample", "run", "--count", "8", "--out", "same.npz"]) == 0
    splits = table_splits(Path("run/samples-0.csv"), TableOptions(classes=classes))
    assert splits.schema.column_names == tuple(NAMES.split(","))
    rows = np.loadtxt("run/samples-0.csv", delimiter=",", skiprows=1)
    with np.load("same.npz") as arrays:
        observed = arrays["x"]
        whole = np.concatenate([arrays["context"], observed], axis=1) if model == "structured" else observed
    assert np.array_equal(rows, whole)
    assert main(["evaluate", "run", "--data", "run/samples-0.csv"]) == 0


def test_draws_of_one_seed_are_no_states_of_another(run: Path) -> None:
    """They come from one stream of random numbers, of which a draw is never the start."""
    for seed in ("0", "1"):
        assert main(["sample", "run", "--count", "2000", "--seed", seed, "--out", f"{seed}.npz"]) == 0
    with np.load("0.npz") as first, np.load("1.npz") as second:
        x, h = first["x"].ravel()[:6000], second["h"].ravel()
    # It was 0.68 when the draws of one seed began with the random numbers of the next.
    assert abs(np.corrcoef(x, h)[0, 1]) < 0.1


def test_codes_and_likelihoods_as_tables(run: Path) -> None:
    for flags in (["encode", "run", "--split", "all"], ["evaluate", "run", "--split", "valid", "--samples", "5"]):
        for out in ("found.csv", "found.npz"):
            assert main([*flags, "--out", out]) == 0
        with Path("found.csv").open(newline="") as stream:
            header, *lines = csv.reader(stream)
        with np.load("found.npz") as arrays:
            found = {name: arrays[name] for name in arrays.files}
        wide = {name: 1 if array.ndim == 1 else array.shape[1] for name, array in found.items()}
        assert header == [
            label
            for name, width in wide.items()
            for label in ([name] if width == 1 else [f"{name} {number + 1}" for number in range(width)])
        ]
        assert [int(line[0]) for line in lines] == found["rows"].tolist()
        last = "mean" if "mean" in found else "effective_sample_size"
        assert np.allclose([float(line[-1]) for line in lines], found[last].reshape(len(lines), -1)[:, -1])
