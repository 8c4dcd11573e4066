"""The rows of a run: what is learned, validated and tested, from whatever a caller has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from jsa.batch import Batch
from jsa.data.dataset import Dataset
from jsa.data.items import ItemRows, ToBatch
from jsa.data.schema import Schema
from jsa.data.splits import PARTS, Splits, counted, divide
from jsa.data.tables.table import dataset_of
from jsa.data.tables.values import as_values, refuse_classes_above
from jsa.errors import UsageError
from jsa.evaluation.rows import Changing, InMemory, Rows, TensorRows, batches
from jsa.latent import Layer
from jsa.model import LatentVariableModel
from jsa.models.belief_network import BeliefNetwork
from jsa.models.structured_prediction import StructuredPrediction
from jsa.runs.config import OWN_ROWS, DataConfig


@dataclass(frozen=True)
class RunRows:
    """The rows of a run.

    Attributes:
        train: What is learned.
        valid: What finds the best epoch, None if nothing does.
        test: What the reported figures are of, None without a test.
        name: The name of the data.
        summary: One line about the data.
        notes: Warnings about the data, one sentence each.
    """

    train: Rows
    valid: Rows | None
    test: Rows | None
    name: str
    summary: str
    notes: tuple[str, ...] = ()

    @classmethod
    def of_splits(cls, splits: Splits) -> RunRows:
        """Return the rows of a dataset."""
        return cls(splits.train, splits.valid, splits.test, splits.name, splits.summary, splits.notes)

    @property
    def parts(self) -> dict[str, Rows | None]:
        """The three parts by their names."""
        return {"train": self.train, "valid": self.valid, "test": self.test}

    @property
    def schema(self) -> Schema | None:
        """The columns of a row, None if nothing is known of them."""
        rows: Rows = self.train
        while isinstance(rows, Part):
            rows = rows.whole
        return rows.schema if isinstance(rows, Dataset) else None


class Part:
    """Some rows of a whole, with numbers of their own from 0.

    Args:
        whole: The whole.
        numbers: The numbers that the rows have in it; all rows if None.
    """

    def __init__(self, whole: Rows, numbers: Int64[Tensor, " rows"] | None = None) -> None:
        self.whole = whole
        self.numbers = torch.arange(len(whole)) if numbers is None else numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def batch(self, index: Tensor, device: torch.device | None = None) -> Batch:
        """Return the rows with these numbers."""
        return replace(self.whole.batch(self.numbers[index], device), index=index)

    def batches(self, numbers: Iterable[Tensor], device: torch.device | None = None) -> Iterator[Batch]:
        """Yield the rows with these numbers, a batch for each tensor of them."""
        order = list(numbers)
        for index, batch in zip(
            order, batches(self.whole, [self.numbers[some] for some in order], device), strict=True
        ):
            yield replace(batch, index=index)

    @property
    def rows_change(self) -> bool:
        """Whether the whole changes between epochs."""
        return isinstance(self.whole, Changing) and self.whole.rows_change

    def start_epoch(self, epoch: int) -> None:
        """Switch to the rows of this epoch, if they change at all."""
        if isinstance(self.whole, Changing):
            self.whole.start_epoch(epoch)


GivenRows = Any
"""Rows as a caller has them: what ``jsa.fit`` takes."""


def given_rows(
    model: LatentVariableModel,
    rows: GivenRows,
    valid: GivenRows | Literal[False] | None,
    test: GivenRows | Literal[False] | None,
    options: DataConfig,
    to_batch: ToBatch | None = None,
    loader: Mapping[str, Any] | None = None,
) -> RunRows:
    """Return the rows of a run from what a caller has.

    Args:
        model: The model, whose observations tell what the numbers of a table mean.
        rows: The rows to learn from, or splits; rows for validation and test are taken from them if none are given.
        valid: The rows for validation, None to take some of ``rows``, False for none.
        test: The same for the test.
        options: How many rows to take, and which.
        to_batch: Makes a batch of the items of a map-style dataset.
        loader: How to read such items ahead.
    """
    if isinstance(rows, Splits):
        if valid is not None or test is not None:
            raise UsageError(
                "splits come with rows for validation and test: leave out valid and test, or pass rows.train"
            )
        return RunRows.of_splits(rows)
    given = {"train": rows, "valid": valid, "test": test}
    parts = {
        name: None if part is None or part is False else _rows(name, part, model, to_batch, loader)
        for name, part in given.items()
    }
    train = parts["train"]
    if train is None:
        raise UsageError("rows are what is learned: give a tensor, an array, jsa.TensorRows, or a dataset")
    shares = {"valid": options.valid_fraction, "test": options.test_fraction}
    wanted = {name: share for name, share in shares.items() if given[name] is None}
    taken = divide(len(train), wanted, options.split_seed, "what was given as rows")
    parts |= {name: Part(train, torch.from_numpy(numbers)) for name, numbers in taken.items()}
    learned = parts["train"]
    assert learned is not None
    counts = zip(("training", "validation", "test"), (parts[name] for name in PARTS), strict=True)
    told = ", ".join(counted(len(part), f"{kind} row") for kind, part in counts if part is not None)
    return RunRows(learned, parts["valid"], parts["test"], OWN_ROWS, f"{OWN_ROWS}: {told}")


def any_rows(given: GivenRows, model: LatentVariableModel) -> Rows:
    """Return rows of which nothing is learned, from whatever a caller has."""
    return _rows("rows", given, model, None, None)


def _rows(
    name: str, given: GivenRows, model: LatentVariableModel, to_batch: ToBatch | None, loader: Mapping[str, Any] | None
) -> Rows:
    """Return rows under numbers from 0, or refuse what has none."""
    what = "rows" if name == "train" else name
    if isinstance(given, DataLoader):
        raise UsageError(
            f"{what} is a DataLoader, whose order and batches are its own: pass its dataset, and loader for num_workers"
        )
    if isinstance(given, IterableDataset):
        raise UsageError(
            f"{what} is an IterableDataset, which has no items by number, so that a row could not find its chain "
            "again: use a dataset with len() and items by number"
        )
    found = _converted(what, given, model, to_batch, loader)
    if len(found) == 0:
        raise UsageError(f"{what} is empty: give 1 row or more")
    _check_width(what, found, model)
    return found


def _converted(
    what: str, given: GivenRows, model: LatentVariableModel, to_batch: ToBatch | None, loader: Mapping[str, Any] | None
) -> Rows:
    if to_batch is None and isinstance(given, Tensor):
        return TensorRows(given)
    if to_batch is None and (isinstance(given, np.ndarray) or hasattr(given, "to_numpy")):
        return _table(what, given, model)
    if isinstance(given, TensorRows | Dataset | ItemRows):
        return given
    if isinstance(given, Rows):
        return Part(given)
    if hasattr(given, "__len__") and hasattr(given, "__getitem__") and not isinstance(given, str | Mapping):
        return ItemRows(given, to_batch, loader)
    raise UsageError(
        f"{what} is a {type(given).__name__}: give a tensor, an array, a data frame, jsa.TensorRows, or a dataset with "
        "len() and items by number"
    )


def _table(what: str, given: Any, model: LatentVariableModel) -> Rows:
    """Return the rows of an array or data frame: values of the model's variables, or else x as it is."""
    array = np.asarray(given)
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"{what} has values that are no numbers ({error}): encode words as numbers from 0, or use jsa train "
                "with a table of words"
            ) from error
    observed = _observed(model)
    if observed is None or array.ndim != 2:
        return TensorRows(torch.as_tensor(array))
    values = as_values(array, what)
    refuse_classes_above(values, observed.classes, what)
    names = tuple(map(str, given.columns)) if hasattr(given, "columns") else None
    return dataset_of(values, replace(Schema.of(values.columns, observed.classes), column_names=names))


def _check_width(what: str, rows: Rows, model: LatentVariableModel) -> None:
    """Refuse rows of another width than the model's observations, as far as the model says what they are."""
    if (observed := _observed(model)) is not None:
        shape = tuple(rows.batch(torch.arange(1)).x.shape[1:])
        if shape != (observed.width,):
            raise UsageError(
                f"a row of {what} has shape {shape}, but x of {type(model).__name__} has width {observed.width}: give "
                "rows of that width, or make the model for these"
            )


def _observed(model: LatentVariableModel) -> Layer | None:
    """Return the variables of x, which the models of this library know."""
    return model.observed if isinstance(model, BeliefNetwork | StructuredPrediction) else None


def held(rows: Rows) -> tuple[InMemory, Tensor | None] | None:
    """Return what holds rows in memory and their numbers there, None for all; None if nothing does."""
    numbers: Tensor | None = None
    while not isinstance(rows, InMemory) and isinstance(whole := getattr(rows, "whole", None), Rows):
        own: Tensor | None = getattr(rows, "numbers", None)
        if own is not None:
            numbers = own if numbers is None else own[numbers]
        rows = whole
    return (rows, numbers) if isinstance(rows, InMemory) else None
