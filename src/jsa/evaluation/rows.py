"""Data to evaluate: rows by number, views of some of them, and one pass through them in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, Self, runtime_checkable

import torch
from jaxtyping import Float, Float64, Int64, Num
from torch import Tensor

from jsa.batch import Batch, check_weights
from jsa.errors import UsageError
from jsa.model_calls import states_at_once
from jsa.models.centering import Center

ROWS_READ_AT_ONCE = 100
"""Number of rows that are read at once to collect their weights or means; with many classes a row is long."""

Progress = Callable[[int], object]
"""A function that is called with the number of rows finished since the last call."""


@runtime_checkable
class Rows(Protocol):
    """Data to evaluate: rows by number."""

    def __len__(self) -> int: ...

    def batch(self, index: Tensor, device: torch.device | None = None, /) -> Batch:
        """Return the rows with these numbers."""
        ...


@runtime_checkable
class InMemory(Rows, Protocol):
    """Rows that are held in memory, so that all of them can be compared with those of another time."""

    def stored(self, rows: slice | Tensor) -> Sequence[Tensor]:
        """Return what determines the rows with these numbers, as it is stored."""
        ...


@runtime_checkable
class Changing(Rows, Protocol):
    """Rows whose values may change between epochs."""

    @property
    def rows_change(self) -> bool:
        """Whether they do, which makes anything remembered about a row stale."""
        ...

    def start_epoch(self, epoch: int) -> None:
        """Switch to the rows of this epoch, if they change at all."""
        ...


@runtime_checkable
class Streaming(Rows, Protocol):
    """Rows that are read ahead, by processes of their own."""

    def batches(self, numbers: Iterable[Tensor], device: torch.device | None = None, /) -> Iterator[Batch]:
        """Yield the rows with these numbers, a batch for each tensor of them."""
        ...


class TensorRows:
    """The rows of a tensor, numbered in their order.

    Args:
        x: The observations.
        context: The context of each row, for conditional models.
        known: The known part of each row's latent state, if any: the likelihood is then that of p(x, known).
        weight: How much each row counts in a likelihood; None if all count alike.

    Example:
        >>> rows = TensorRows(torch.eye(3))
        >>> len(rows), rows.batch(torch.tensor([2, 0])).x
        (3, tensor([[0., 0., 1.],
                [1., 0., 0.]]))
    """

    def __init__(
        self,
        x: Num[Tensor, "rows *observed"],
        context: Num[Tensor, "rows *context"] | None = None,
        known: Float[Tensor, "rows width"] | None = None,
        weight: Float[Tensor, " rows"] | None = None,
    ) -> None:
        self._all = Batch(x, torch.arange(len(x)), context, known, weight)

    def __len__(self) -> int:
        return len(self._all)

    def batch(self, index: Tensor, device: torch.device | None = None) -> Batch:
        """Return the rows with these numbers."""
        return self._all.take(index).to(device)

    def stored(self, rows: slice | Tensor) -> Sequence[Tensor]:
        """Return the values, contexts, known states and weights of these rows, as far as there are any."""
        parts = (self._all.x, self._all.context, self._all.known, self._all.weight)
        return [part[rows] for part in parts if part is not None]


def as_rows(rows: Rows | Tensor) -> Rows:
    """Return rows, or make them from a tensor; refuse anything else."""
    if isinstance(rows, Tensor):
        return TensorRows(rows)
    if not isinstance(rows, Rows):
        raise UsageError(
            f"{type(rows).__name__} cannot be evaluated as data: give a tensor, jsa.TensorRows(x, context), or an "
            "object with len() and batch(index, device)"
        )
    return rows


class Subset:
    """A view of some rows of a dataset.

    Args:
        rows: The dataset.
        numbers: The numbers that the rows have in it.

    Example:
        >>> halves = Subset(TensorRows(torch.eye(4)), torch.tensor([1, 3]))
        >>> len(halves), halves.batch(torch.tensor([1])).index
        (2, tensor([3]))
    """

    def __init__(self, rows: Rows, numbers: Int64[Tensor, " some"]) -> None:
        self._rows = rows
        self.numbers = numbers

    @classmethod
    def spread(cls, rows: Rows, count: int | None) -> Self:
        """Return a view of this many rows, spread evenly and in their order; of all rows if there are no more.

        Row i of the view is row floor((i + 1/2) * len(rows) / count): the middle one of each of `count` equal parts.
        Published splits may be sorted by class, so the first rows would say nothing about the others.

        >>> Subset.spread(TensorRows(torch.eye(10)), 4).numbers
        tensor([1, 3, 6, 8])
        """
        total = len(rows)
        chosen = total if count is None else min(count, total)
        return cls(rows, (2 * torch.arange(chosen) + 1) * total // (2 * max(chosen, 1)))

    def __len__(self) -> int:
        return len(self.numbers)

    def batch(self, index: Tensor, device: torch.device | None = None) -> Batch:
        """Return the rows at these positions of the view, under their numbers in the dataset."""
        return self._rows.batch(self.numbers[index], device)

    def batches(self, numbers: Iterable[Tensor], device: torch.device | None = None) -> Iterator[Batch]:
        """Yield the rows at these positions of the view."""
        return batches(self._rows, (self.numbers[index] for index in numbers), device)


def batches(rows: Rows, numbers: Iterable[Tensor], device: torch.device | None = None) -> Iterator[Batch]:
    """Yield the rows with these numbers, a batch for each tensor of them, read ahead if the rows can be."""
    if isinstance(rows, Streaming):
        return rows.batches(numbers, device)
    return (rows.batch(index, device) for index in numbers)


class Joined:
    """Datasets one after the other, under the numbers that their rows then have.

    Args:
        parts: The datasets, alike in what they have beside x.

    Example:
        >>> both = Joined([TensorRows(torch.eye(3)), TensorRows(torch.zeros(2, 3))])
        >>> len(both), both.batch(torch.tensor([3, 1])).x
        (5, tensor([[0., 0., 0.],
                [0., 1., 0.]]))
    """

    def __init__(self, parts: Sequence[Rows]) -> None:
        self._parts = parts
        self._ends = torch.tensor([len(part) for part in parts]).cumsum(0)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def batch(self, index: Tensor, device: torch.device | None = None) -> Batch:
        """Return the rows with these numbers."""
        places = torch.bucketize(index, self._ends, right=True)
        here = [(places == number).nonzero().flatten() for number in range(len(self._parts))]
        starts = [0, *self._ends.tolist()]
        found = [
            part.batch(index[where] - start, device)
            for part, where, start in zip(self._parts, here, starts, strict=False)
            if len(where)
        ]
        return replace(_joined(found).take(torch.cat(here).argsort()), index=index)


def _joined(batches: Sequence[Batch]) -> Batch:
    """Return the rows of all batches in one, without their numbers."""

    def joined(name: str) -> Tensor | None:
        parts = [part for batch in batches if (part := getattr(batch, name)) is not None]
        return torch.cat(parts) if parts else None

    x = torch.cat([batch.x for batch in batches])
    return Batch(x, context=joined("context"), known=joined("known"), weight=joined("weight"))


def in_chunks(
    rows: Rows, size: int, device: torch.device | None = None, progress: Progress | None = None
) -> Iterator[Batch]:
    """Yield all rows in chunks of this size, and report each chunk when the next one is asked for."""
    if len(rows) == 0:
        raise UsageError("there are no rows to evaluate")
    for batch in batches(rows, torch.arange(len(rows)).split(size), device):
        yield batch
        if progress is not None:
            progress(len(batch))


def row_weights(rows: Rows) -> Float64[Tensor, " rows"] | None:
    """Return how much each row counts, scaled to mean one; None if all count alike.

    This reads all rows, if the first has a weight.

    >>> row_weights(TensorRows(torch.eye(3), weight=torch.tensor([0.0, 1.0, 3.0])))
    tensor([0.0000, 0.7500, 2.2500], dtype=torch.float64)
    """
    if len(rows) == 0 or rows.batch(torch.arange(1)).weight is None:
        return None
    parts = []
    for batch in in_chunks(rows, ROWS_READ_AT_ONCE):
        if batch.weight is None:
            raise UsageError(f"row {batch.row(0)} has no weight, but others have: give each row one, or none")
        # On the CPU the numbers are checked, too.
        check_weights(batch.weight.cpu(), len(batch), batch.index)
        parts.append(batch.weight.cpu().double())
    weights = torch.cat(parts)
    if not bool(weights.any()):
        raise UsageError(f"the weights of all {len(rows)} rows are zero, so no row counts: give some a positive weight")
    return weights / weights.mean()


def column_means(rows: Rows | Tensor) -> Center:
    """Return the mean of every column of x, and of the context if there is one, for models that are centered.

    Missing values (NaN) are left out, and rows count by their weights. The mean of a column without values is NaN.

    >>> x = torch.tensor([[1.0, 0.0, torch.nan], [0.0, torch.nan, torch.nan], [1.0, 1.0, torch.nan]])
    >>> column_means(TensorRows(x, weight=torch.tensor([1.0, 1.0, 2.0]))).x
    tensor([0.7500, 0.6667,    nan])
    """
    rows = as_rows(rows)
    weights = row_weights(rows)
    x, context = _ColumnSums(), _ColumnSums()
    done = 0
    for batch in in_chunks(rows, ROWS_READ_AT_ONCE):
        weight = torch.ones(len(batch)) if weights is None else weights[done : done + len(batch)]
        x.add(batch.x, weight)
        if batch.context is not None:
            context.add(batch.context, weight)
        done += len(batch)
    return Center(x.mean, context.mean)


class _ColumnSums:
    """Sums over rows, in double precision."""

    def __init__(self) -> None:
        self._total: Tensor | None = None

    def add(self, values: Num[Tensor, "batch *row"], weight: Float[Tensor, " batch"]) -> None:
        """Add rows with these weights."""
        values = values.cpu().double().movedim(0, -1)
        present = ~values.isnan()
        # A product would spread a missing value to its column.
        parts = torch.stack([values.where(present, 0) @ weight.double(), present.double() @ weight.double()])
        self._total = parts if self._total is None else self._total + parts

    @property
    def mean(self) -> Float[Tensor, " *row"] | None:
        """The means, NaN where nothing was added; None if no rows were."""
        if self._total is None:
            return None
        total, count = self._total
        return (total / count).to(torch.get_default_dtype())


def states_in_chunk(rows: Rows) -> int:
    """Return about how many states of such rows to evaluate at once."""
    return states_at_once(rows.batch(torch.arange(1))) if len(rows) else 1
