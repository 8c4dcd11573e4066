"""The three parts of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Int64

from jsa.data.dataset import Conditioned, Dataset
from jsa.data.schema import Schema
from jsa.data.streams import permutation
from jsa.errors import DataError, UsageError

PARTS = ("train", "valid", "test")
"""The names of the parts, in the order of presentation."""


@dataclass(frozen=True)
class Splits:
    """Training, validation and test rows.

    Attributes:
        name: The name of the dataset, or of the table's file.
        train: The rows to learn from.
        valid: The rows that stop the training and select among models.
        test: The rows for the reported results, and for nothing else.
        taken: For the parts that come from one table, the numbers of their rows in it, from 0. A part that is not here
            is a table of its own.
        notes: Warnings about the data, one sentence each.
    """

    name: str
    train: Dataset
    valid: Dataset
    test: Dataset
    taken: Mapping[str, Int64[np.ndarray, " rows"]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for part, rows in self.parts.items():
            if rows.schema.classes != self.schema.classes:
                raise UsageError(
                    f"{part} of {self.name} has {rows.schema.classes} classes, not {self.schema.classes} as train"
                )
            if replace(rows.schema, missing=self.schema.missing) != self.schema:
                raise UsageError(f"{part} and train of {self.name} do not have the same columns")

    @property
    def parts(self) -> dict[str, Dataset]:
        """The three parts by their names."""
        return {"train": self.train, "valid": self.valid, "test": self.test}

    @property
    def schema(self) -> Schema:
        """The columns of a training row. Values may be missing in other parts even if it says that none are."""
        return self.train.schema

    @property
    def of_one_table(self) -> bool:
        """Whether the three parts together are the rows of one table."""
        return set(self.taken) == set(PARTS)

    def row_numbers(self, part: str) -> Int64[np.ndarray, " rows"]:
        """Return the row numbers of a part, from 0, in the table that it comes from."""
        return self.taken[part] if part in self.taken else np.arange(len(self.parts[part]))

    @property
    def summary(self) -> str:
        """One line about the data."""
        schema = self.schema
        counts = zip(("training", "validation", "test"), self.parts.values(), strict=True)
        rows = ", ".join(counted(len(part), f"{kind} row") for kind, part in counts)
        given = f", the first {schema.context_columns:,} given" if schema.context_columns else ""
        kind = "binary" if schema.classes == 2 else f"{schema.classes} classes"
        worded = [bool(words) for words in schema.words or ()]
        words = f", words in {'all' if all(worded) else sum(worded)} of them" if worded else ""
        return f"{self.name}: {rows}; {counted(schema.columns, 'column')}{given}, {kind}{words}{self._missing_share}"

    @property
    def _missing_share(self) -> str:
        missing = sum(int(part.missing.sum()) for part in self.parts.values() if part.missing is not None)
        values = sum(len(part) for part in self.parts.values()) * self.schema.observed_columns
        return f"; {counted(missing, 'value')} missing ({missing / values:.1%})" if missing else ""

    def split_context(self, columns: int) -> Splits:
        """Return views of all parts with their first `columns` variables as the context of the others.

        With half of the columns of an image this is structured prediction: the lower half given the upper.
        """

        def view(name: str) -> Conditioned:
            source = self.name if name in ("train", *self.taken) else f"the {name} table of {self.name}"
            return Conditioned(self.parts[name], columns, source, self.row_numbers(name))

        return replace(self, train=view("train"), valid=view("valid"), test=view("test"))


def divide(
    rows: int, fractions: Mapping[str, float], seed: int, source: str, flag: str = ""
) -> dict[str, Int64[np.ndarray, " part"]]:
    """Divide rows at random into parts of given shares and the rest to learn from. Each part keeps the order of rows.

    Args:
        rows: The number of rows.
        fractions: The shares of the parts, by name.
        seed: The seed of the division.
        source: The name of the rows in an error.
        flag: What the names of settings begin with where the user gives them.

    Returns:
        The numbers of the rows of each part, and of those to learn from as ``train``; nothing if no part is wanted.

    Example:
        >>> {name: len(numbers) for name, numbers in divide(10, {"test": 0.2}, 0, "the table").items()}
        {'test': 2, 'train': 8}
    """
    if not fractions:
        return {}
    order = permutation(rows, "table split", seed)
    # With no more rows than parts to fill, no fraction leaves any.
    too_few = rows <= len(fractions)
    taken, start = {}, 0
    for name, fraction in fractions.items():
        stop = start + round(fraction * rows)
        if stop == start and not too_few:
            raise DataError(
                f"{source} has too few rows: {name}_fraction {fraction} of {rows} rows is none; give a larger "
                f"{_fraction(name, flag)}, or rows of their own by {_rows_of(name, flag)}"
            )
        taken[name] = np.sort(order[start:stop])
        start = stop
    if start >= rows or too_few:
        leave = f"its {rows} row{'s leave' if rows > 1 else ' leaves'} none to learn from"
        smaller = "" if too_few else "smaller fractions, or "
        others = " and ".join(_rows_of(name, flag) for name in fractions)
        raise DataError(f"{source} has too few rows: {leave}; give {smaller}rows of their own by {others}")
    return taken | {"train": np.sort(order[start:])}


def _fraction(name: str, flag: str) -> str:
    return f"{flag}{name}-fraction" if flag else f"{name}_fraction"


def _rows_of(name: str, flag: str) -> str:
    return f"{flag}{name}-file" if flag else name


def counted(count: int, noun: str) -> str:
    """Return a number of things in words.

    >>> counted(1, "row"), counted(50_000, "row")
    ('1 row', '50,000 rows')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
