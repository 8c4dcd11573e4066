"""Names and paths, and options that do not belong together."""

from __future__ import annotations

from pathlib import Path

import pytest

from jsa.data import load
from jsa.errors import DataError, UsageError


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="there is no dataset 'mnist-statik': did you mean 'mnist-static'"):
        load("mnist-statik")


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "table.xlsx"
    with pytest.raises(UsageError, match=r"table.xlsx is not a table: its name must end in .npy, .npz, .csv"):
        load(str(path))
    with pytest.raises(UsageError, match="must end in"):
        load(str(tmp_path))


def test_a_split_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "table.csv").write_text("0,1\n" * 10)
    with pytest.raises(UsageError, match=r"table.txt is not a table"):
        load(str(tmp_path / "table.csv"), valid_file=tmp_path / "table.txt")


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(DataError, match=r"table.npz cannot be read: No such file"):
        load(str(tmp_path / "table.npz"))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("valid_file", Path("valid.npy")),
        ("test_file", Path("test.npy")),
        ("valid_fraction", 0.2),
        ("test_fraction", 0.2),
        ("split_seed", 1),
    ],
)
def test_a_named_dataset_refuses_the_options_of_tables(option, value):
    with pytest.raises(UsageError, match=f"{option} is for your own tables: mnist-static comes with its splits"):
        load("mnist-static", **{option: value})


def test_a_named_dataset_is_binary():
    with pytest.raises(UsageError, match="classes is 3, but mnist-static is binary"):
        load("mnist-static", classes=3)
    assert load("mnist-static", classes=2).classes == 2
