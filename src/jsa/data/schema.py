"""The columns of a dataset, which is all that a model knows about its data. Needs neither torch nor numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from jsa.errors import UsageError, shortened

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import UInt8

Words = tuple[tuple[str, ...], ...]
"""The words of each column in the order of their classes; empty for a column of numbers."""


@dataclass(frozen=True)
class Schema:
    """The variables of a row.

    Attributes:
        observed_columns: The number of observed variables.
        context_columns: The number of context variables before them; 0 without context.
        classes: The number of values that each variable can take; 2 is binary.
        image_shape: Height and width of a row as an image, context and observed columns together; None if rows are not
            images.
        column_names: The names of all columns, context and observed, if the data has names.
        missing: Whether observed values are missing.
        words: The word for each class of each column, empty for a column of numbers; None if no column has words.
        values: For each column, the number of values that it can take, the first ones; None for all.

    Example:
        >>> Schema.of(6, classes=3).conditioned(2).context_width
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
                f"a row needs 1 or more observed columns and 0 or more of context, not {self.observed_columns} and "
                f"{self.context_columns}"
            )
        check_classes(self.classes)
        if self.image_shape is not None and (min(self.image_shape) < 1 or math.prod(self.image_shape) != self.columns):
            height, width = self.image_shape
            raise UsageError(f"a row of {self.columns} columns is not an image of {height} x {width}")
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
            raise UsageError("words must have one entry per column, either empty or with a word for each value")

    @classmethod
    def of(cls, columns: int, classes: int = 2, image_shape: tuple[int, int] | None = None) -> Self:
        """Return the schema of columns without names or context."""
        return cls(columns, 0, classes, image_shape)

    def conditioned(self, columns: int) -> Self:
        """Return the schema with this many of the first columns as context of the others; 0 for none."""
        return replace(self, observed_columns=self.columns - columns, context_columns=columns)

    @property
    def columns(self) -> int:
        """The number of all variables, context and observed."""
        return self.context_columns + self.observed_columns

    @property
    def column_classes(self) -> tuple[int, ...]:
        """The number of values that each column can take."""
        return self.values or (self.classes,) * self.columns

    @property
    def column_words(self) -> Words:
        """The words of each column, empty for a column of numbers."""
        return self.words or ((),) * self.columns

    @property
    def observed_width(self) -> int:
        """The width of `Batch.x`."""
        return encoded_width(self.observed_columns, self.classes)

    @property
    def context_width(self) -> int:
        """The width of `Batch.context`; 0 without context."""
        return encoded_width(self.context_columns, self.classes)


def encoded_width(columns: int, classes: int) -> int:
    """Return the width of this many variables in a batch: one number each if binary, else one-hot.

    >>> encoded_width(10, 2), encoded_width(10, 3)
    (10, 30)
    """
    return columns if classes == 2 else columns * classes


def check_classes(classes: int) -> None:
    """Refuse a number of values that a variable, which is stored as a byte, cannot take."""
    if not 2 <= classes <= 256:
        raise UsageError(f"classes is {classes}: a variable takes between 2 and 256 values")


def observed_labels(schema: Schema) -> list[str | None]:
    """Return a label for each number of `Batch.x`: the column's name or place, and the value whose probability it is.

    A redundant number has no label: the first of two values, and classes that a column cannot have.

    Example:
        >>> observed_labels(Schema.of(3).conditioned(1))
        ['column 2', 'column 3']
        >>> observed_labels(Schema(1, 0, 3, None, ("color",)))
        ['color = 0', 'color = 1', 'color = 2']
        >>> observed_labels(Schema.of(4, image_shape=(2, 2)).conditioned(2))
        ['pixel 2,1', 'pixel 2,2']
        >>> observed_labels(Schema(1, 0, 3, None, ("smokes",), words=(("no", "yes"),), values=(2,)))
        [None, 'smokes = yes', None]
    """
    numbers = (1,) if schema.classes == 2 else range(schema.classes)
    columns = zip(column_labels(schema), schema.column_words, schema.column_classes, strict=True)
    observed = list(columns)[schema.context_columns :]
    return [_label(number, *column, schema.classes) for column in observed for number in numbers]


def _label(number: int, name: str, words: tuple[str, ...], values: int, classes: int) -> str | None:
    if number >= values or (number == 0 and values == 2):
        return None
    if words:
        return f"{name} = {shortened(words[number])}"
    return name if classes == 2 else f"{name} = {number}"


def written_columns(schema: Schema, numbers: UInt8[np.ndarray, "rows columns"]) -> dict[str, Any]:
    """Return rows as they are written to a table: the values of each column by its label, as words if it has words.

    Example:
        >>> import numpy as np
        >>> answers = np.array([[0, 3], [1, 2]], dtype=np.uint8)
        >>> written_columns(Schema(2, 0, 4, None, words=(("no", "yes"), ()), values=(2, 4)), answers)
        {'column 1': ['no', 'yes'], 'column 2': [3, 2]}
    """
    columns = zip(column_labels(schema), schema.column_words, numbers.T.tolist(), strict=True)
    return {label: [known[number] for number in column] if known else column for label, known, column in columns}


def column_labels(schema: Schema) -> Sequence[str]:
    """Return the name of each column, or its place."""
    return schema.column_names or [_place(number, schema) for number in range(schema.columns)]


def _place(number: int, schema: Schema) -> str:
    """Return the place of a column, counted from 1 as in every sentence about data."""
    if schema.image_shape is None:
        return f"column {number + 1}"
    row, column = divmod(number, schema.image_shape[1])
    return f"pixel {row + 1},{column + 1}"
