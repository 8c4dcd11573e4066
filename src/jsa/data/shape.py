"""What the rows of a dataset are made of: all that a model must know of its data. Nothing here needs torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jsa.data.words import Words
from jsa.errors import UsageError


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
            has words. A column of words has as many classes as words.

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
        if self.words is not None and len(self.words) != self.columns:
            raise UsageError(f"a row of {self.columns} columns cannot have the words of {len(self.words)}")
        most = max(map(len, self.words or ()), default=0)
        if most > self.classes:
            raise UsageError(f"{most} words cannot stand for {self.classes} classes")

    @property
    def columns(self) -> int:
        """All of its variables."""
        return self.context_columns + self.observed_columns

    @property
    def column_classes(self) -> tuple[int, ...]:
        """The number of values that each column can take."""
        if self.words is None:
            return (self.classes,) * self.columns
        return tuple(len(words) or self.classes for words in self.words)

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
