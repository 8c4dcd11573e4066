"""What to call the columns of data. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import UInt8

from jsa.data.shape import RowShape
from jsa.errors import shortened


def observed_labels(shape: RowShape) -> list[str | None]:
    """A label for each number of `Batch.x`: the column's name, or its place, and what the number is the probability of.

    A number that says nothing new has none: the first of two values, and classes that a column cannot have.

    Example:
        >>> observed_labels(RowShape(2, 1, 2, None))
        ['column 2', 'column 3']
        >>> observed_labels(RowShape(1, 0, 3, None, ("colour",)))
        ['colour = 0', 'colour = 1', 'colour = 2']
        >>> observed_labels(RowShape(2, 2, 2, (2, 2)))
        ['pixel 2,1', 'pixel 2,2']
        >>> observed_labels(RowShape(1, 0, 3, None, ("smokes",), words=(("no", "yes"),), values=(2,)))
        [None, 'smokes = yes', None]
    """
    numbers = (1,) if shape.classes == 2 else range(shape.classes)
    columns = zip(column_labels(shape), shape.column_words, shape.column_classes, strict=True)
    observed = list(columns)[shape.context_columns :]
    return [_label(number, *column, shape.classes) for column in observed for number in numbers]


def _label(number: int, name: str, words: tuple[str, ...], values: int, classes: int) -> str | None:
    if number >= values or (number == 0 and values == 2):
        return None
    if words:
        return f"{name} = {shortened(words[number])}"
    return name if classes == 2 else f"{name} = {number}"


def written_columns(shape: RowShape, numbers: UInt8[np.ndarray, "rows columns"]) -> dict[str, Any]:
    """Rows as they are written to a table: the values of each column by its label, words where it has such.

    Example:
        >>> answers = np.array([[0, 3], [1, 2]], dtype=np.uint8)
        >>> written_columns(RowShape(2, 0, 4, None, words=(("no", "yes"), ()), values=(2, 4)), answers)
        {'column 1': ['no', 'yes'], 'column 2': [3, 2]}
    """
    columns = zip(column_labels(shape), shape.column_words, numbers.T.tolist(), strict=True)
    return {label: [known[number] for number in column] if known else column for label, known, column in columns}


def column_labels(shape: RowShape) -> Sequence[str]:
    """The name of each column, or its place."""
    return shape.column_names or [_place(number, shape) for number in range(shape.columns)]


def _place(number: int, shape: RowShape) -> str:
    """Columns, and the rows and columns of pictures, are counted from 1 as in every sentence about data."""
    if shape.image_shape is None:
        return f"column {number + 1}"
    row, column = divmod(number, shape.image_shape[1])
    return f"pixel {row + 1},{column + 1}"
