"""Rows that are asked for by number."""

from __future__ import annotations

from typing import Protocol, final, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64, UInt8
from torch import Tensor

from jsa.batch import Batch
from jsa.data.schema import check_classes, encoded_width
from jsa.data.tables.values import place
from jsa.errors import DataError, UsageError


@runtime_checkable
class Dataset(Protocol):
    """What the training loop and the evaluation ask of data.

    A row has a number that never changes, whatever the order of visits: the chains of an estimator are
    kept under it.
    """

    @property
    def classes(self) -> int:
        """The number of values that each variable can take; 2 is binary."""

    @property
    def labels(self) -> UInt8[Tensor, " rows"] | None:
        """The class of each row, where it is known. Nothing learns from it."""

    @property
    def rows_change(self) -> bool:
        """Whether a row's values change between epochs, which makes anything remembered about it stale."""

    @property
    def observed_columns(self) -> int:
        """The number of observed variables of a row."""

    @property
    def context_columns(self) -> int:
        """The number of variables that a row is conditioned on; 0 without context."""

    @property
    def observed_width(self) -> int:
        """The width of `Batch.x`: the variables, or their one-hot codes side by side."""

    @property
    def context_width(self) -> int:
        """The width of `Batch.context`; 0 without context."""

    @property
    def missing(self) -> Bool[Tensor, "rows observed"] | None:
        """Where an observed value is missing, NaN in `Batch.x`; None where nothing is."""

    def __len__(self) -> int: ...

    def batch(self, index: Int64[Tensor, " batch"], device: torch.device | str | None = None) -> Batch:
        """The rows of these numbers, on `device` where one is given."""

    def split_context(self, columns: int) -> Dataset:
        """The same rows, with their first `columns` variables as context of the others."""

    def start_epoch(self, epoch: int) -> None:
        """Make the rows those of this epoch, where they change at all."""


@final
class IndexedDataset:
    """Rows kept in memory as bytes, turned to floating point only as they are asked for.

    A byte a variable keeps all of MNIST in 55 MB, and a batch travels to its device as bytes.

    Args:
        rows: The values 0 ... classes - 1 of the observed variables, row by row.
        classes: The number of values that each variable can take.
        context: The values of the variables that each row is conditioned on, out of the same classes.
        labels: The class of each row, where it is known.
        missing: Where an observed value is missing: NaN in a batch, whatever `rows` has there. None where nothing is.

    Example:
        >>> digits = IndexedDataset(torch.tensor([[0, 1], [1, 1], [0, 0]], dtype=torch.uint8))
        >>> digits.batch(torch.tensor([2, 0])).x
        tensor([[0., 0.],
                [0., 1.]])
        >>> digits.split_context(1).batch(torch.tensor([1])).context
        tensor([[1.]])
    """

    rows_change = False

    def __init__(
        self,
        rows: UInt8[Tensor, "rows observed"],
        *,
        classes: int = 2,
        context: UInt8[Tensor, "rows context"] | None = None,
        labels: UInt8[Tensor, " rows"] | None = None,
        missing: Bool[Tensor, "rows observed"] | None = None,
    ) -> None:
        check_classes(classes)
        _check_values("rows", rows, classes)
        if context is not None:
            _check_values("context", context, classes)
            _check_count("context", context, rows)
        if labels is not None:
            _check_count("labels", labels, rows)
        if missing is not None and (missing.dtype != torch.bool or missing.shape != rows.shape):
            raise UsageError(
                f"missing must be a bool tensor of shape {tuple(rows.shape)}, as the rows; it is {missing.dtype} of "
                f"shape {tuple(missing.shape)}"
            )
        self.rows = rows
        self.classes = classes
        self.context = context
        self.labels = labels
        self.missing = missing

    @property
    def observed_columns(self) -> int:
        """The number of observed variables of a row."""
        return self.rows.shape[1]

    @property
    def context_columns(self) -> int:
        """The number of variables that a row is conditioned on; 0 without context."""
        return 0 if self.context is None else self.context.shape[1]

    @property
    def observed_width(self) -> int:
        """The width of `Batch.x`: the variables, or their one-hot codes side by side."""
        return encoded_width(self.observed_columns, self.classes)

    @property
    def context_width(self) -> int:
        """The width of `Batch.context`; 0 without context."""
        return encoded_width(self.context_columns, self.classes)

    def __len__(self) -> int:
        return self.rows.shape[0]

    def batch(self, index: Int64[Tensor, " batch"], device: torch.device | str | None = None) -> Batch:
        """The rows of these numbers, on `device` where one is given, else where the rows are kept."""
        here = index.to(self.rows.device)
        where = self.rows.device if device is None else device
        x = _encode(self.rows.index_select(0, here).to(where), self.classes)
        if self.missing is not None:
            missing = self.missing.index_select(0, here).to(where)
            x.masked_fill_(missing if self.classes == 2 else missing.repeat_interleave(self.classes, dim=1), torch.nan)
        context = None
        if self.context is not None:
            context = _encode(self.context.index_select(0, here).to(where), self.classes)
        return Batch(x=x, index=index.to(where), context=context)

    def split_context(self, columns: int) -> IndexedDataset:
        """The same rows, with their first `columns` variables as context of the others.

        On pictures whose rows of pixels follow each other, half of the columns is the upper half: the
        model then completes the lower half.
        """
        check_context_columns(columns, self.observed_columns, self.context_columns)
        refuse_gap_in_context(self, columns, "the data")
        return IndexedDataset(
            self.rows[:, columns:].contiguous(),
            classes=self.classes,
            context=self.rows[:, :columns].contiguous(),
            labels=self.labels,
            missing=None if self.missing is None else self.missing[:, columns:].contiguous(),
        )

    def start_epoch(self, epoch: int) -> None:
        """Nothing: these rows are the same in every epoch."""


def refuse_gap_in_context(
    rows: Dataset, columns: int, source: str, numbers: Int64[np.ndarray, " rows"] | None = None
) -> None:
    """Names the first value that is missing among the columns that the others are to be conditioned on.

    Args:
        rows: The rows.
        columns: How many of the first columns are the context.
        source: What the table is called.
        numbers: The numbers, from 0, that the rows have in it; 0, 1, ... where not given.
    """
    if rows.missing is None or not bool((given := rows.missing[:, :columns]).any()):
        return
    row, column = given.nonzero()[0].tolist()
    raise DataError(
        f"{place(source, row if numbers is None else int(numbers[row]), column)} is missing, but the first {columns} "
        "columns are the context of the others, of which nothing may be missing: fill it in, or choose a model that is "
        "not conditional"
    )


def check_context_columns(columns: int, observed: int, context: int) -> None:
    """Refuse a context that would leave nothing on one side, or that is already there."""
    if context:
        raise UsageError(f"these rows already have a context of {context} columns")
    if observed < 2:
        raise UsageError(
            f"rows of {observed} column cannot be divided into a context and the rest: a conditional model, such as "
            "structured, needs 2 columns or more"
        )
    if not 0 < columns < observed:
        raise UsageError(
            f"a context of {columns} columns cannot be split off rows of {observed}: "
            f"give a number from 1 to {observed - 1}"
        )


def _encode(values: UInt8[Tensor, "batch columns"], classes: int) -> Float32[Tensor, "batch width"]:
    """The values as floating point; more than two classes become one-hot, variables side by side."""
    if classes == 2:
        return values.float()
    every_class = torch.arange(classes, dtype=torch.uint8, device=values.device)
    return (values.unsqueeze(-1) == every_class).float().flatten(1)


def _check_values(name: str, values: Tensor, classes: int) -> None:
    if values.dtype != torch.uint8 or values.ndim != 2:
        raise UsageError(
            f"{name} must be a uint8 tensor of two dimensions, rows and columns; "
            f"it is {values.dtype} of shape {tuple(values.shape)}"
        )
    if values.numel() == 0:
        raise UsageError(f"{name} of shape {tuple(values.shape)} holds nothing")
    highest = int(values.max())
    if highest >= classes:
        raise UsageError(f"{name} holds the value {highest}, but {classes} classes go up to {classes - 1}")


def _check_count(name: str, values: Tensor, rows: Tensor) -> None:
    if values.shape[0] != rows.shape[0]:
        raise UsageError(f"{name} has {values.shape[0]} rows, but there are {rows.shape[0]}")
