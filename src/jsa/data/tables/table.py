"""The user's own tables and their splits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from jsa.data.arrays import read_npy, read_npz
from jsa.data.dataset import Conditioned, Dataset, IndexedDataset
from jsa.data.schema import Schema, Words, check_classes
from jsa.data.splits import PARTS, Splits, divide
from jsa.data.tables.categories import in_common, recoded, refuse_too_many
from jsa.data.tables.delimited import read_csv
from jsa.data.tables.table_warnings import about_numbers, about_words
from jsa.data.tables.values import Values, as_values, refuse_classes_above, refuse_empty_columns
from jsa.errors import DataError, UsageError, shortened
from jsa.io.home_folder import expanded
from jsa.ranges import Fraction, Ranged, Seed

TEXT = (".csv", ".tsv")
SUFFIXES = (".npy", ".npz", *TEXT)


@dataclass(frozen=True)
class TableOptions(Ranged):
    """Options for splitting a table into three parts.

    Attributes:
        valid_file: A table of validation rows; without it, and without such an array, a fraction of the rows is used.
        test_file: The same for test rows.
        valid_fraction: The share of the rows to use for validation, without a table of them.
        test_fraction: The share of the rows to use for the test, without a table of them.
        split_seed: The seed of the choice of these rows.
        classes: The number of values of a variable; None for one more than the largest value in any split.
    """

    valid_file: Path | None = None
    test_file: Path | None = None
    valid_fraction: Fraction = 0.1
    test_fraction: Fraction = 0.1
    split_seed: Seed = 0
    classes: int | None = None


@dataclass(frozen=True)
class Table:
    """A table as it was read.

    Attributes:
        values: The values.
        source: The name of the table in an error.
        names: The names of its columns, if any.
        words: The words of each column, empty for one of numbers; None for an array, which cannot have words.
        remarks: Warnings about the table, one sentence each.
    """

    values: Values
    source: str
    names: tuple[str, ...] | None = None
    words: Words | None = None
    remarks: tuple[str, ...] = ()

    @property
    def column_words(self) -> Words:
        """The words of each column, empty for one of numbers."""
        return self.words or ((),) * self.values.columns

    def recoded(self, words: Words, where: str) -> Table:
        """Return the table with the classes that words have elsewhere."""
        return replace(self, values=recoded(self.values, self.column_words, words, self.source, where), words=words)


def table_splits(path: Path, options: TableOptions) -> Splits:
    """Return the splits of a table: its own arrays, other files, or rows chosen at random."""
    parts = _read_parts(path)
    for name, file in (("valid", options.valid_file), ("test", options.test_file)):
        if file is None:
            continue
        if name in parts:
            raise UsageError(f"{path} has an array '{name}' of its own: leave out the {name} file {file}")
        parts[name] = _read_single(file, parts["train"].words, parts["train"].names)
    train = parts["train"]
    for part in parts.values():
        if part.values.columns != train.values.columns:
            raise DataError(
                f"{part.source} has {part.values.columns} columns, "
                f"but {train.source} has {train.values.columns}: they must agree"
            )
        _refuse_other_names(part, train.names, f"in {train.source}")
    words = in_common(part.column_words for part in parts.values())
    refuse_too_many(words, " and ".join(part.source for part in parts.values()))
    parts = {name: part.recoded(words, "in another table of the data") for name, part in parts.items()}
    train = parts["train"]
    values_of_columns = _values_of_columns(list(parts.values()), words, options.classes)
    classes = max(2, *values_of_columns)
    fractions = {"valid": options.valid_fraction, "test": options.test_fraction}
    wanted = {name: share for name, share in fractions.items() if name not in parts}
    taken = divide(len(train.values), wanted, options.split_seed, train.source, flag="--")
    values = {name: train.values.take(taken[name]) if name in taken else parts[name].values for name in PARTS}
    refuse_empty_columns(values["train"], train.source)
    # A user who gives the number of classes knows about them.
    sources = {part.source: part.values for part in parts.values()}
    odd = about_numbers(sources, words) if options.classes is None else ()
    said = (remark for part in parts.values() for remark in part.remarks)
    schema = Schema(train.values.columns, 0, classes, None, train.names)
    if any(words):
        schema = replace(schema, words=words, values=values_of_columns)
    return Splits(
        name=path.name,
        train=dataset_of(values["train"], schema),
        valid=dataset_of(values["valid"], schema),
        test=dataset_of(values["test"], schema),
        taken=taken,
        notes=(*odd, *about_words(sources, words), *said, *_gaps_not_learned_from(values)),
    )


def read_table(path: Path, schema: Schema) -> Dataset:
    """Read all rows of another table in their order.

    Args:
        path: The table: one array, or text.
        schema: The columns that it must have.
    """
    table = _read_single(expanded(path), schema.words, schema.column_names)
    found = table.values.columns
    if found != schema.columns:
        raise DataError(
            f"{table.source} must have as many columns as the data of the run: {schema.columns}, not {found}"
        )
    _refuse_other_names(table, schema.column_names, "in the data of the run")
    # An array has classes as numbers.
    if table.words is not None:
        table = table.recoded(schema.column_words, "in the data of the run")
    refuse_classes_above(table.values, schema.column_classes, table.source)
    rows = dataset_of(table.values, schema.conditioned(0))
    return Conditioned(rows, schema.context_columns, table.source) if schema.context_columns else rows


def _read_parts(path: Path) -> dict[str, Table]:
    """Read the table as `train`, with the other splits of a .npz file by name."""
    if path.suffix.lower() != ".npz":
        return {"train": _read_single(path)}
    arrays = read_npz(path)
    if len(arrays) == 1:
        return {"train": _single_array(arrays, path)}
    if "train" not in arrays or not set(arrays) <= {"train", "valid", "test"}:
        if {"data", "indices", "indptr"} <= set(arrays):
            raise DataError(
                f"{path} holds a sparse matrix: save it as an array, by numpy.savez(file, matrix.toarray())"
            )
        found = shortened(", ".join(sorted(arrays))) or "(none)"
        raise DataError(
            f"{path} holds the arrays {found}: a .npz table holds one array, "
            f"or 'train' and with it 'valid' or 'test' or both"
        )
    return {name: _checked(array, f"{path}, array '{shortened(name)}'") for name, array in arrays.items()}


def _read_single(path: Path, known: Words | None = None, names: tuple[str, ...] | None = None) -> Table:
    """Read a file with a single table; some of its words and names may be known from other tables."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"{path} is not a table: its name must end in {', '.join(SUFFIXES)}")
    if suffix in TEXT:
        text = read_csv(path, known or (), names)
        return Table(text.values, str(path), text.names, text.words, text.remarks)
    if suffix == ".npy":
        return _checked(read_npy(path), str(path))
    return _single_array(read_npz(path), path)


def _gaps_not_learned_from(values: Mapping[str, Values]) -> tuple[str, ...]:
    if values["train"].missing is not None or all(found.missing is None for found in values.values()):
        return ()
    return (
        "values are missing in rows to validate or test with, but in none to learn from: the inference model takes "
        "them for zeros, so look at the effective sample size",
    )


def _single_array(arrays: dict[str, np.ndarray], path: Path) -> Table:
    if len(arrays) != 1:
        raise DataError(f"{path} holds {len(arrays)} arrays, but one is needed here")
    ((name, array),) = arrays.items()
    return _checked(array, f"{path}, array '{shortened(name)}'")


def _checked(array: np.ndarray, source: str) -> Table:
    return Table(as_values(array, source), source)


def dataset_of(values: Values, schema: Schema) -> IndexedDataset:
    """Return a dataset of these values."""
    missing = None if values.missing is None else torch.from_numpy(values.missing)
    return IndexedDataset(torch.from_numpy(values.numbers), schema, missing=missing)


def _values_of_columns(tables: list[Table], words: Words, given: int | None) -> tuple[int, ...]:
    """Return how many values each column can take in all splits: its words, or a common number for numbers."""
    columns = np.flatnonzero([not known for known in words])
    found = max(table.values.of_columns(columns).classes for table in tables) if len(columns) else 2
    of_numbers = found if given is None else given
    check_classes(of_numbers)
    counts = tuple(len(known) or of_numbers for known in words)
    for table in tables:
        refuse_classes_above(table.values, counts, table.source)
    return counts


def _refuse_other_names(table: Table, expected: tuple[str, ...] | None, where: str) -> None:
    """Refuse other columns, or columns in another order, if both tables have headers."""
    for number, (found, name) in enumerate(zip(table.names or (), expected or (), strict=False), start=1):
        if found != name:
            raise DataError(
                f"{table.source}: column {number} is called '{found}', but '{name}' {where}: bring the columns into "
                "that order, or leave out the header if they are the same"
            )
