"""What to call the columns of data. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import UInt8

from jsa.data.shape import RowShape


def observed_labels(shape: RowShape) -> list[str]:
    """A label for each number of `Batch.x`: the column's name, or its place, and with more than two classes the value.

    Example:
        >>> observed_labels(RowShape(2, 1, 2, None))
        ['column 2', 'column 3']
        >>> observed_labels(RowShape(1, 0, 3, None, ("colour",)))
        ['colour = 0', 'colour = 1', 'colour = 2']
        >>> observed_labels(RowShape(2, 2, 2, (2, 2)))
        ['pixel 2,1', 'pixel 2,2']
        >>> observed_labels(RowShape(1, 0, 2, None, ("smokes",), words=(("no", "yes"),)))
        ['smokes = yes']
    """
    words = shape.words or ((),) * shape.columns
    columns = list(zip(column_labels(shape), words, strict=True))[shape.context_columns :]
    if shape.classes == 2:
        return [f"{name} = {known[1]}" if len(known) == 2 else name for name, known in columns]
    return [f"{name} = {_value(number, known)}" for name, known in columns for number in range(shape.classes)]


def written_columns(shape: RowShape, numbers: UInt8[np.ndarray, "rows columns"]) -> dict[str, Any]:
    """Rows as they are written to a table: the values of each column by its label, words where it has such.

    Example:
        >>> answers = np.array([[0, 3], [1, 2]], dtype=np.uint8)
        >>> written_columns(RowShape(2, 0, 4, None, words=(("no", "yes"), ())), answers)
        {'column 1': ['no', 'yes'], 'column 2': [3, 2]}
    """
    words = shape.words or ((),) * shape.columns
    columns = zip(column_labels(shape), words, numbers.T.tolist(), strict=True)
    return {label: [known[number] for number in column] if known else column for label, known, column in columns}


def _value(number: int, words: tuple[str, ...]) -> str:
    """What a class is called; of a column of words, those behind the last are none."""
    if not words:
        return str(number)
    return words[number] if number < len(words) else "(none)"


def column_labels(shape: RowShape) -> Sequence[str]:
    """The name of each column, or its place."""
    return shape.column_names or [_place(number, shape) for number in range(shape.columns)]


def _place(number: int, shape: RowShape) -> str:
    """Columns, and the rows and columns of pictures, are counted from 1 as in every sentence about data."""
    if shape.image_shape is None:
        return f"column {number + 1}"
    row, column = divmod(number, shape.image_shape[1])
    return f"pixel {row + 1},{column + 1}"
