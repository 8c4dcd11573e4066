"""What is said about a table that holds more than data."""

from __future__ import annotations

import numpy as np
import pytest

from jsa.data.remarks import remarks

BITS = np.random.default_rng(0).integers(0, 2, (30, 20)).astype(np.uint8)


def with_columns(*columns: int) -> np.ndarray:
    values = BITS.copy()
    values[:, list(columns)] = np.arange(30)[:, None]
    return values


def with_rows(*rows: int) -> np.ndarray:
    values = BITS.copy()
    values[list(rows)] = np.arange(20)
    return values


@pytest.mark.parametrize(
    ("values", "classes", "place"),
    [
        (with_columns(0), 30, "only in column 1 of t.csv and give every column 30 classes: remove"),
        (with_columns(3, 19), 30, "only in columns 4, 20 of t.csv and"),
        (with_rows(0), 20, "only in the first row of t.csv and give every column 20 classes: remove that row if"),
        (BITS[:, :4] + with_columns(2)[:, :4] // 2, 16, "only in column 3 of t.csv"),
    ],
)
def test_few_columns_or_the_first_row_are_named(values: np.ndarray, classes: int, place: str) -> None:
    (note,) = remarks({"t.csv": values}, classes)
    assert place in note
    assert note.endswith(", or check the table with --data-classes 2")


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (BITS, 2),
        (with_columns(0, 1, 2), 30),
        (with_rows(0, 5), 20),
        (with_rows(1), 20),
        (np.arange(30, dtype=np.uint8)[:, None], 30),
    ],
    ids=["binary", "many columns", "two rows", "another row", "one column"],
)
def test_other_tables_get_no_remark(values: np.ndarray, classes: int) -> None:
    assert remarks({"t.csv": values}, classes) == ()


def test_a_header_of_one_large_number_is_a_row() -> None:
    values = BITS[:, :3].copy()
    values[0] = [0, 1, 2]
    assert "the first row of t.csv" in remarks({"t.csv": values}, 3)[0]


def test_all_tables_are_looked_at() -> None:
    assert remarks({"t.csv": with_columns(0), "test.csv": with_columns(0, 1, 2)}, 30) == ()
    assert "column 1 of t.csv and test.csv" in remarks({"t.csv": with_columns(0), "test.csv": with_columns(0)}, 30)[0]
    assert "column 1 of t.csv and give" in remarks({"t.csv": with_columns(0), "test.csv": BITS}, 30)[0]
