"""What a table may hold: whole numbers, from 0 to 255."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, UInt8

from jsa.errors import DataError

RULE = "a table holds whole numbers from 0 to 255"
_ROWS_AT_A_TIME = 4096


def as_bytes(table: np.ndarray, source: str) -> UInt8[np.ndarray, "rows columns"]:
    """The table as bytes, or an error that names the first value that is none.

    Numbers of any type are taken, if they are whole: 1.0 is a class number, 0.5 is not.

    >>> as_bytes(np.array([[0.0, 2.0]]), "example")
    array([[0, 2]], dtype=uint8)
    """
    if table.ndim != 2:
        raise DataError(f"{source} has the shape {table.shape}, but a table has two dimensions, rows and columns")
    if table.size == 0:
        raise DataError(f"{source} has {table.shape[0]} rows and {table.shape[1]} columns: it holds nothing")
    if table.dtype.kind not in "buif":
        raise DataError(f"{source} holds values of type {table.dtype}, but {RULE}")
    if table.dtype not in (np.bool_, np.uint8):
        for start in range(0, len(table), _ROWS_AT_A_TIME):
            bad = _not_a_byte(table[start : start + _ROWS_AT_A_TIME])
            if bad.any():
                row, column = np.argwhere(bad)[0].tolist()
                value = table[start + row, column]
                raise DataError(f"{place(source, start + row, column)} holds {value}, but {RULE}")
    return np.ascontiguousarray(table, dtype=np.uint8)


def refuse_classes_above(values: UInt8[np.ndarray, "rows columns"], classes: int, source: str) -> None:
    """Names the first value that so many classes do not go up to."""
    if int(values.max()) >= classes:
        row, column = np.argwhere(values >= classes)[0].tolist()
        raise DataError(
            f"{place(source, row, column)} holds {values[row, column]}, but {classes} classes go up to {classes - 1}"
        )


def place(source: str, row: int, column: int) -> str:
    """Where a value is, as a person counts.

    >>> place("digits.npy", 0, 3)
    'digits.npy: row 1, column 4 (counted from 1)'
    """
    return f"{source}: row {row + 1}, column {column + 1} (counted from 1)"


def _not_a_byte(block: np.ndarray) -> Bool[np.ndarray, "rows columns"]:
    good = (block >= 0) & (block <= 255)  # false for NaN, too
    if block.dtype.kind == "f":
        good &= block == np.trunc(block)
    return ~good
