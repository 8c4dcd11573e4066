"""The values of a table: whole numbers from 0 to 255, and missing values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64, UInt8

from jsa.errors import DataError

RULE = "a table holds whole numbers from 0 to 255"
_ROWS_AT_A_TIME = 4096


@dataclass(frozen=True)
class Values:
    """The values of a table.

    Attributes:
        numbers: The values, row by row; 0 where one is missing.
        missing: The values that are missing; None if there are none.
    """

    numbers: UInt8[np.ndarray, "rows columns"]
    missing: Bool[np.ndarray, "rows columns"] | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def columns(self) -> int:
        """The number of variables."""
        return self.numbers.shape[1]

    @property
    def classes(self) -> int:
        """The number of classes of the values: one more than the largest."""
        return max(2, int(self.numbers.max()) + 1)

    def there(self, value: int) -> Bool[np.ndarray, "rows columns"]:
        """Return where this value is; a missing value is not one."""
        same: Bool[np.ndarray, "rows columns"] = self.numbers == value
        return same if self.missing is None else same & ~self.missing

    def of_columns(self, columns: Int64[np.ndarray, " taken"]) -> Values:
        """Return the values of these columns."""
        return Values(self.numbers[:, columns], None if self.missing is None else self.missing[:, columns])

    def take(self, rows: Int64[np.ndarray, " taken"]) -> Values:
        """Return the values of these rows."""
        missing = None if self.missing is None else self.missing[rows]
        return Values(self.numbers[rows], missing if missing is not None and missing.any() else None)


def as_values(table: np.ndarray, source: str) -> Values:
    """Return the values of an array, or refuse the first invalid one.

    Numbers of any type are accepted if they are whole: 1.0 is a class number, 0.5 is not. NaN is a missing value.

    >>> as_values(np.array([[0.0, 2.0], [np.nan, 1.0]]), "example").numbers
    array([[0, 2],
           [0, 1]], dtype=uint8)
    """
    if table.ndim != 2:
        raise DataError(f"{source} has the shape {table.shape}, but a table has two dimensions, rows and columns")
    if table.size == 0:
        raise DataError(
            f"{source} has {table.shape[0]} rows and {table.shape[1]} columns, so it is empty: give 1 or more of both"
        )
    if table.dtype.kind not in "buif":
        raise DataError(f"{source} holds values of type {table.dtype}, but {RULE}")
    missing = np.isnan(table) if table.dtype.kind == "f" else None
    if missing is None or not missing.any():
        _refuse_others(table, source)
        return Values(np.ascontiguousarray(table, dtype=np.uint8))
    empty = missing.all(axis=1)
    if empty.any():
        raise DataError(f"{source}: row {int(empty.argmax()) + 1} (counted from 1) has no value at all: leave it out")
    numbers = np.where(missing, 0, table)
    _refuse_others(numbers, source)
    return Values(numbers.astype(np.uint8), missing)


def refuse_classes_above(values: Values, classes: int | Sequence[int], source: str) -> None:
    """Refuse a value beyond this many classes, of all columns or of each."""
    numbers = values.numbers
    limits = np.broadcast_to(np.asarray(classes), numbers.shape[1:])
    if (numbers.max(axis=0) >= limits).any():
        row, column = np.argwhere(numbers >= limits)[0].tolist()
        raise DataError(
            f"{place(source, row, column)} holds {numbers[row, column]}, but {limits[column]} classes go up to "
            f"{limits[column] - 1}"
        )


def refuse_empty_columns(learned: Values, source: str) -> None:
    """Refuse a column without any value in the training rows, because nothing can be learned about it."""
    if learned.missing is not None and (empty := learned.missing.all(axis=0)).any():
        column = int(empty.argmax()) + 1
        is_text = source.lower().endswith((".csv", ".tsv"))
        at_the_end = ", or the delimiter at the end of each line" if is_text and column == learned.columns else ""
        raise DataError(
            f"{source}: column {column} (counted from 1) has no value in the rows to learn from: leave it "
            f"out{at_the_end}"
        )


def place(source: str, row: int, column: int) -> str:
    """Name the place of a value, counted from 1.

    >>> place("digits.npy", 0, 3)
    'digits.npy: row 1, column 4 (counted from 1)'
    """
    return f"{source}: row {row + 1}, column {column + 1} (counted from 1)"


def _refuse_others(table: np.ndarray, source: str) -> None:
    if table.dtype in (np.bool_, np.uint8):
        return
    for start in range(0, len(table), _ROWS_AT_A_TIME):
        bad = _not_a_byte(table[start : start + _ROWS_AT_A_TIME])
        if bad.any():
            row, column = np.argwhere(bad)[0].tolist()
            value = table[start + row, column]
            raise DataError(f"{place(source, start + row, column)} holds {value}, but {RULE}")


def _not_a_byte(block: np.ndarray) -> Bool[np.ndarray, "rows columns"]:
    good = (block >= 0) & (block <= 255)
    if block.dtype.kind == "f":
        good &= block == np.trunc(block)
    return ~good
