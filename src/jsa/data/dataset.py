"""Datasets: rows by number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, final, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int64, UInt8
from torch import Tensor

from jsa.batch import Batch, check_weights
from jsa.data.schema import Schema, encoded_width
from jsa.data.tables.values import place
from jsa.errors import DataError, UsageError


@runtime_checkable
class Dataset(Protocol):
    """The interface of data to training and evaluation.

    A row has a number that never changes, whatever the order of visits: the chains of an estimator are stored under it.
    """

    @property
    def schema(self) -> Schema:
        """The columns of a row."""

    @property
    def labels(self) -> UInt8[Tensor, " rows"] | None:
        """The class of each row, if known. Nothing learns from it."""

    @property
    def missing(self) -> Bool[Tensor, "rows observed"] | None:
        """The observed values that are missing, NaN in `Batch.x`; None if there are none."""

    @property
    def rows_change(self) -> bool:
        """Whether a row's values change between epochs, which makes anything remembered about it stale."""

    def __len__(self) -> int: ...

    def batch(self, index: Int64[Tensor, " batch"], device: torch.device | str | None = None) -> Batch:
        """Return the rows with these numbers, on `device` if given."""

    def start_epoch(self, epoch: int) -> None:
        """Switch to the rows of this epoch, if they change at all."""


@final
class IndexedDataset:
    """Rows stored in memory as bytes and converted to floating point batch by batch.

    At a byte per variable all of MNIST takes 55 MB, and a batch is copied to its device as bytes.

    Args:
        rows: The values 0 ... classes - 1 of all variables, row by row.
        schema: The columns of a row; by default binary columns without names.
        labels: The class of each row, if known.
        missing: The values that are missing: NaN in a batch, whatever `rows` has there. None if there are none.
        weights: How much each row counts, 0 or more; None if all count alike. Their scale does not matter to
            `jsa.training.loop.train` and to likelihoods.

    Example:
        >>> digits = IndexedDataset(torch.tensor([[0, 1], [1, 1], [0, 0]], dtype=torch.uint8))
        >>> digits.batch(torch.tensor([2, 0])).x
        tensor([[0., 0.],
                [0., 1.]])
    """

    rows_change = False

    def __init__(
        self,
        rows: UInt8[Tensor, "rows columns"],
        schema: Schema | None = None,
        *,
        labels: UInt8[Tensor, " rows"] | None = None,
        missing: Bool[Tensor, "rows columns"] | None = None,
        weights: Float[Tensor, " rows"] | None = None,
    ) -> None:
        check_bytes("rows", rows)
        schema = schema or Schema.of(rows.shape[1])
        if (schema.observed_columns, schema.context_columns) != (rows.shape[1], 0):
            raise UsageError(
                f"rows of {rows.shape[1]} columns need a schema of that width without context, not {schema}"
            )
        if (highest := int(rows.max())) >= schema.classes:
            raise UsageError(
                f"rows holds the value {highest}, but {schema.classes} classes go up to {schema.classes - 1}"
            )
        if labels is not None and len(labels) != len(rows):
            raise UsageError(f"labels has {len(labels)} rows, but there are {len(rows)}")
        if missing is not None and (missing.dtype != torch.bool or missing.shape != rows.shape):
            raise UsageError(
                f"missing must be a bool tensor of shape {tuple(rows.shape)}, as the rows; it is {missing.dtype} of "
                f"shape {tuple(missing.shape)}"
            )
        if weights is not None:
            check_weights(weights, len(rows))
        self.schema = replace(schema, missing=missing is not None)
        self.rows = rows
        self.labels = labels
        self.missing = missing
        self.weights = weights

    def __len__(self) -> int:
        return self.rows.shape[0]

    def batch(self, index: Int64[Tensor, " batch"], device: torch.device | str | None = None) -> Batch:
        """Return the rows with these numbers, on `device` if given, else on the device of the rows."""
        here, classes = index.to(self.rows.device), self.schema.classes
        where = self.rows.device if device is None else device
        x = _encode(self.rows.index_select(0, here).to(where), classes)
        gaps = self.missing is not None
        if self.missing is not None:
            missing = self.missing.index_select(0, here)
            # On a device it is cheaper to fill no gaps than to ask whether there are any.
            gaps = missing.device.type != "cpu" or bool(missing.any())
            missing = missing.to(where)
            x.masked_fill_(missing if classes == 2 else missing.repeat_interleave(classes, dim=1), torch.nan)
        weight = None if self.weights is None else self.weights[index.to(self.weights.device)].to(where)
        return Batch(x=x, index=index, weight=weight, gaps=gaps)

    def start_epoch(self, epoch: int) -> None:
        """Do nothing: these rows are the same in every epoch."""

    def stored(self, rows: slice | Tensor) -> Sequence[Tensor]:
        """Return the bytes of these rows, 0 where a value is missing, and their weights."""
        values = self.rows[rows]
        values = values if self.missing is None else values.masked_fill(self.missing[rows], 0)
        return [values] if self.weights is None else [values, self.weights[rows]]


@final
class Conditioned:
    """A view of rows with their first columns as the context of the others.

    With half of the columns of an image as context, a model completes the lower half of the image.

    Args:
        rows: The rows.
        columns: The number of first columns that are the context.
        source: The name of the rows in an error.
        numbers: The row numbers in that source, from 0; by default 0, 1, ...

    Example:
        >>> digits = IndexedDataset(torch.tensor([[0, 1], [1, 1], [0, 0]], dtype=torch.uint8))
        >>> Conditioned(digits, 1).batch(torch.tensor([1])).context
        tensor([[1.]])
    """

    def __init__(
        self,
        rows: Dataset,
        columns: int,
        source: str = "the data",
        numbers: Int64[np.ndarray, " rows"] | None = None,
    ) -> None:
        _check_context(columns, rows.schema)
        if rows.missing is not None and bool((gaps := rows.missing[:, :columns]).any()):
            row, column = gaps.nonzero()[0].tolist()
            raise DataError(
                f"{place(source, row if numbers is None else int(numbers[row]), column)} is missing, but the first "
                f"{columns} columns are the context of the others, of which nothing may be missing: fill it in, or "
                "choose a model that is not conditional"
            )
        self.whole = rows
        self._width = encoded_width(columns, rows.schema.classes)
        self.schema = rows.schema.conditioned(columns)
        self.labels = rows.labels
        self.missing = None if rows.missing is None else rows.missing[:, columns:]
        self.rows_change = rows.rows_change

    def __len__(self) -> int:
        return len(self.whole)

    def batch(self, index: Int64[Tensor, " batch"], device: torch.device | str | None = None) -> Batch:
        """Return the rows with these numbers, their first columns as context."""
        whole = self.whole.batch(index, device)
        context, x = (part.contiguous() for part in whole.x.tensor_split([self._width], dim=1))
        return Batch(x=x, index=whole.index, context=context, weight=whole.weight, gaps=whole.gaps)

    def start_epoch(self, epoch: int) -> None:
        """Switch to the rows of this epoch."""
        self.whole.start_epoch(epoch)


def check_bytes(name: str, values: Tensor) -> None:
    """Refuse values that are not a table of bytes."""
    if values.dtype != torch.uint8 or values.ndim != 2:
        raise UsageError(
            f"{name} must be a uint8 tensor of two dimensions, rows and columns; "
            f"it is {values.dtype} of shape {tuple(values.shape)}"
        )
    if values.numel() == 0:
        raise UsageError(f"{name} of shape {tuple(values.shape)} has no values: give 1 or more rows and columns")


def _check_context(columns: int, schema: Schema) -> None:
    """Refuse a context that would leave no context or no observed columns, or a second context."""
    observed = schema.observed_columns
    if schema.context_columns:
        raise UsageError(f"these rows already have a context of {schema.context_columns} columns")
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
    """Return the values as floating point; more than two classes become one-hot, variables side by side."""
    if classes == 2:
        return values.float()
    every_class = torch.arange(classes, dtype=torch.uint8, device=values.device)
    return (values.unsqueeze(-1) == every_class).float().flatten(1)
