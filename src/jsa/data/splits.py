"""The three parts of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Int64

from jsa.data.dataset import Dataset, refuse_gap_in_context
from jsa.data.schema import RowShape, Words
from jsa.errors import UsageError

PARTS = ("train", "valid", "test")
"""What the parts are called, in the order in which they are shown."""


@dataclass(frozen=True)
class Splits:
    """Rows to learn from, rows to choose by, and rows to report on.

    Attributes:
        name: The name of the dataset, or of the table's file.
        train: What is learned from.
        valid: What stops the training and chooses between models.
        test: What is reported, and used for nothing else.
        classes: The number of values that each variable can take; the same in all three.
        image_shape: Height and width of a row as a picture, context and observed columns together; None
            where a row is no picture.
        column_names: The names of all columns of a row, context and observed, where the data has such.
        words: The words that the classes of each column stand for, none for a column of numbers; None where no column
            has words.
        values: How many of the classes each column can have, the first ones; None for all.
        taken: For the parts that were taken out of one table, the numbers of their rows in it, from 0. A part that is
            not here is a table of its own.
        notes: What whoever learns from the data should know about it, a sentence each.
    """

    name: str
    train: Dataset
    valid: Dataset
    test: Dataset
    classes: int
    image_shape: tuple[int, int] | None = None
    column_names: tuple[str, ...] | None = None
    words: Words | None = None
    values: tuple[int, ...] | None = None
    taken: Mapping[str, Int64[np.ndarray, " rows"]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for part, rows in self.parts.items():
            if rows.classes != self.classes:
                raise UsageError(f"{part} of {self.name} has {rows.classes} classes, not {self.classes}")
            here = rows.observed_columns, rows.context_columns
            if here != (self.train.observed_columns, self.train.context_columns):
                raise UsageError(f"{part} and train of {self.name} do not have the same columns")

    @property
    def parts(self) -> dict[str, Dataset]:
        """The three parts by their names."""
        return {"train": self.train, "valid": self.valid, "test": self.test}

    @property
    def row_shape(self) -> RowShape:
        """What the rows of all three are made of."""
        observed, context = self.train.observed_columns, self.train.context_columns
        missing = self.train.missing is not None
        return RowShape(
            observed, context, self.classes, self.image_shape, self.column_names, missing, self.words, self.values
        )

    @property
    def of_one_table(self) -> bool:
        """Whether the three parts together are the rows of one table."""
        return set(self.taken) == set(PARTS)

    def row_numbers(self, part: str) -> Int64[np.ndarray, " rows"]:
        """The numbers, from 0, that the rows of a part have in the table that they are from."""
        return self.taken[part] if part in self.taken else np.arange(len(self.parts[part]))

    @property
    def summary(self) -> str:
        """What was read, in a line."""
        counts = zip(("training", "validation", "test"), self.parts.values(), strict=True)
        rows = ", ".join(counted(len(part), f"{kind} row") for kind, part in counts)
        context = self.train.context_columns
        given = f", the first {context:,} given" if context else ""
        columns = counted(context + self.train.observed_columns, "column")
        kind = "binary" if self.classes == 2 else f"{self.classes} classes"
        return f"{self.name}: {rows}; {columns}{given}, {kind}{self._worded}{self._missing_share}"

    @property
    def _worded(self) -> str:
        columns = [bool(words) for words in self.words or ()]
        return f", words in {'all' if all(columns) else sum(columns)} of them" if columns else ""

    @property
    def _missing_share(self) -> str:
        missing = sum(int(part.missing.sum()) for part in self.parts.values() if part.missing is not None)
        values = sum(len(part) for part in self.parts.values()) * self.train.observed_columns
        return f"; {counted(missing, 'value')} missing ({missing / values:.1%})" if missing else ""

    def split_context(self, columns: int) -> Splits:
        """The same rows, with their first `columns` variables as context of the others, in all three parts.

        With half of the columns of a picture this is structured prediction: the lower half, given the upper.
        """
        for name, part in self.parts.items():
            source = self.name if name in ("train", *self.taken) else f"the {name} table of {self.name}"
            refuse_gap_in_context(part, columns, source, self.row_numbers(name))
        return replace(
            self,
            train=self.train.split_context(columns),
            valid=self.valid.split_context(columns),
            test=self.test.split_context(columns),
        )


def counted(count: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "row"), counted(50_000, "row")
    ('1 row', '50,000 rows')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
