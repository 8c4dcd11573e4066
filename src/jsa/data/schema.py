"""What the rows of a dataset are made of: all that a model must know of its data. Nothing here needs torch or numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jsa.errors import UsageError, shortened

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import UInt8

Words = tuple[tuple[str, ...], ...]
"""The words of each column, in the order of the classes that they are; none for a column of numbers."""


@dataclass(frozen=True)
class RowShape:
    """The variables of a row.

    Attributes:
        observed_columns: How many are observed.
        context_columns: How many stand before them, for the others to be conditioned on; 0 without context.
        classes: The number of values that each of them can take; 2 is binary.
        image_shape: Height and width of a row as a picture, context and observed columns together; None where a row is
            no picture.
        column_names: What all columns are called, context and observed, where the data has names.
        missing: Whether observed values are missing in the rows that are learned from.
        words: The words that the classes of each column stand for, none for a column of numbers; None where no column
            has words.
        values: How many of the classes each column can have, the first ones; None for all.

    Example:
        >>> RowShape(observed_columns=4, context_columns=2, classes=3, image_shape=None).context_width
        6
    """

    observed_columns: int
    context_columns: int
    classes: int
    image_shape: tuple[int, int] | None
    column_names: tuple[str, ...] | None = None
    missing: bool = False
    words: Words | None = None
    values: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.observed_columns < 1 or self.context_columns < 0:
            raise UsageError(
                f"a row has 1 or more observed columns and 0 or more of context, not {self.observed_columns} and "
                f"{self.context_columns}"
            )
        check_classes(self.classes)
        if self.image_shape is not None and (min(self.image_shape) < 1 or math.prod(self.image_shape) != self.columns):
            height, width = self.image_shape
            raise UsageError(f"a row of {self.columns} columns is no picture of {height} x {width}")
        if self.column_names is not None and len(self.column_names) != self.columns:
            raise UsageError(f"a row of {self.columns} columns cannot have {len(self.column_names)} names")
        if self.values is not None and not (
            len(self.values) == self.columns and set(self.values) <= {*range(1, self.classes + 1)}
        ):
            raise UsageError(f"values must be {self.columns} numbers from 1 to {self.classes}, not {self.values}")
        if self.words is not None and not (
            len(self.words) == self.columns
            and all(len(known) in (0, count) for known, count in zip(self.words, self.column_classes, strict=True))
        ):
            raise UsageError("words must be as many as a row has columns, each of them none or as many as its values")

    @property
    def columns(self) -> int:
        """All of its variables."""
        return self.context_columns + self.observed_columns

    @property
    def column_classes(self) -> tuple[int, ...]:
        """The number of values that each column can take."""
        return self.values or (self.classes,) * self.columns

    @property
    def column_words(self) -> Words:
        """The words of each column, none for one of numbers."""
        return self.words or ((),) * self.columns

    @property
    def context_width(self) -> int:
        """The width of `Batch.context`; 0 without context."""
        return encoded_width(self.context_columns, self.classes)


def encoded_width(columns: int, classes: int) -> int:
    """The width of so many variables in a batch: themselves if binary, else one-hot.

    >>> encoded_width(10, 2), encoded_width(10, 3)
    (10, 30)
    """
    return columns if classes == 2 else columns * classes


def check_classes(classes: int) -> None:
    """Refuses a number of values that a variable, which is kept as a byte, cannot take."""
    if not 2 <= classes <= 256:
        raise UsageError(f"classes is {classes}: a variable takes between 2 and 256 values")


def observed_labels(shape: RowShape) -> list[str | None]:
    """A label for each number of `Batch.x`: the column's name, or its place, and what the number is the probability of.

    A number that says nothing new has none: the first of two values, and classes that a column cannot have.

    Example:
        >>> observed_labels(RowShape(2, 1, 2, None))
        ['column 2', 'column 3']
        >>> observed_labels(RowShape(1, 0, 3, None, ("color",)))
        ['color = 0', 'color = 1', 'color = 2']
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
        >>> import numpy as np
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
