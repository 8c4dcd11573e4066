"""What is said about a table that holds more than data."""

from __future__ import annotations

import numpy as np
import pytest

from jsa.data.tables.table_warnings import about_numbers
from jsa.data.tables.values import Values

BITS = np.random.default_rng(0).integers(0, 2, (30, 20)).astype(np.uint8)
GRADES = np.random.default_rng(0).integers(0, 5, (30, 20)).astype(np.uint8)


def of(classes: int, **tables: np.ndarray) -> tuple[str, ...]:
    """What is said of tables of these names."""
    found = {f"{name}.csv": Values(values) for name, values in tables.items()}
    assert max(values.classes for values in found.values()) == classes
    return about_numbers(found)


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
    (note,) = of(classes, t=values)
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
    assert of(classes, t=values) == ()


def test_a_header_of_one_large_number_is_a_row() -> None:
    values = BITS[:, :3].copy()
    values[0] = [0, 1, 2]
    assert "the first row of t.csv" in of(3, t=values)[0]


def test_all_tables_are_looked_at() -> None:
    assert of(30, t=with_columns(0), test=with_columns(0, 1, 2)) == ()
    assert "column 1 of t.csv and test.csv" in of(30, t=with_columns(0), test=with_columns(0))[0]
    assert "column 1 of t.csv and give" in of(30, t=with_columns(0), test=BITS)[0]


def test_row_numbers_beside_classes_are_named() -> None:
    numbered = GRADES.copy()
    numbered[:, 0] = np.arange(30)
    (note,) = of(30, t=numbered)
    assert "values above 4 occur only in column 1 of t.csv and give every column 30 classes: remove columns" in note
    assert note.endswith("--data-classes 5")
    header = GRADES.copy()
    header[0] = np.arange(20)
    assert "values above 4 occur only in the first row of t.csv" in of(20, t=header)[0]


def test_a_column_of_some_more_classes_is_data() -> None:
    values = GRADES.copy()
    values[3:9, 0] = [5, 6, 7, 8, 8, 8]
    assert of(9, t=values) == ()
    values[9] = 9
    assert of(10, t=values) == ()


def test_classes_that_are_counted_from_one_are_noted() -> None:
    (note,) = of(6, t=GRADES + 1)
    assert note.startswith("no value of t.csv is 0, and classes are counted from 0: subtract 1 from every value")
    assert note.endswith("for 5 classes instead of 6")
    assert of(6, t=GRADES + 1, test=GRADES) == ()
    missing = GRADES == 0
    (note,) = about_numbers({"t.csv": Values(GRADES, missing)})
    assert "for 4 classes instead of 5" in note
    assert about_numbers({"t.csv": Values(GRADES, missing & (GRADES > 0))}) == ()


def test_a_binary_table_counted_from_one_is_noted() -> None:
    assert "for 2 classes instead of 3" in of(3, t=BITS + 1)[0]
