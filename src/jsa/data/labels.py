"""What to call the columns of data. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Sequence

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
    """
    observed = column_labels(shape)[shape.context_columns :]
    if shape.classes == 2:
        return list(observed)
    return [f"{name} = {value}" for name in observed for value in range(shape.classes)]


def column_labels(shape: RowShape) -> Sequence[str]:
    """The name of each column, or its place."""
    return shape.column_names or [_place(number, shape) for number in range(shape.columns)]


def _place(number: int, shape: RowShape) -> str:
    """Columns, and the rows and columns of pictures, are counted from 1 as in every sentence about data."""
    if shape.image_shape is None:
        return f"column {number + 1}"
    row, column = divmod(number, shape.image_shape[1])
    return f"pixel {row + 1},{column + 1}"
