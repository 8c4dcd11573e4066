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
    with pytest.raises(DataError, match=r"there is no table .*table.npz: check the path, or give .* by --data-dir"):
        load(str(tmp_path / "table.npz"))
    with pytest.raises(DataError, match=r"there is no table .*nowhere/t.csv or .*/t.csv: check the path"):
        load("nowhere/t.csv", data_dir=tmp_path)


def test_a_table_is_found_by_its_file_name_in_the_data_folder(tmp_path):
    for name, cell in (("table", "0"), ("valid", "1")):
        (tmp_path / f"{name}.csv").write_text(f"{cell},1\n" * 20)
    splits = load("elsewhere/table.csv", data_dir=tmp_path, valid_file=Path("valid.csv"))
    assert (len(splits.train), len(splits.valid)) == (18, 20)
    assert splits.valid.rows.min() == 1


def test_a_table_at_its_path_is_taken_before_one_in_the_data_folder(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "table.csv").write_text("0,1\n" * 20)
    (tmp_path / "folder" / "table.csv").write_text("0,1\n" * 30)
    splits = load(str(tmp_path / "table.csv"), data_dir=tmp_path / "folder")
    assert len(splits.train) == 16


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
