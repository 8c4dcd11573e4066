"""Data that can be evaluated: rows by their numbers, all of a tensor or parts of a dataset."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Num
from torch import Tensor

from jsa.batch import Batch
from jsa.errors import UsageError


@runtime_checkable
class Rows(Protocol):
    """Data that can be evaluated: rows by their numbers."""

    def __len__(self) -> int: ...

    def batch(self, index: Tensor, device: torch.device | None = None, /) -> Batch:
        """The rows with these numbers."""
        ...


class TensorRows:
    """The rows of a tensor, numbered in their order.

    Args:
        x: The observations.
        context: What each of them is conditioned on, for conditional models.
        known: What is known of their latent states, if anything: the likelihood is then that of p(x, known).

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
    ) -> None:
        self._all = Batch(x, torch.arange(len(x), device=x.device), context, known)

    def __len__(self) -> int:
        return len(self._all)

    def batch(self, index: Tensor, device: torch.device | None = None) -> Batch:
        """The rows with these numbers."""
        return self._all.take(index.to(self._all.index.device)).to(device)


def as_rows(rows: Rows | Tensor) -> Rows:
    """Rows, also those of a plain tensor; anything else is refused with what to give."""
    if isinstance(rows, Tensor):
        return TensorRows(rows)
    if not isinstance(rows, Rows):
        raise UsageError(
            f"{type(rows).__name__} is no data that can be evaluated: give a tensor, jsa.TensorRows(x, context), or an "
            "object with len() and batch(index, device)"
        )
    return rows


class FirstRows:
    """The first rows of a dataset, or all of them."""

    def __init__(self, rows: Rows, count: int | None) -> None:
        self._rows = rows
        self._count = len(rows) if count is None else min(count, len(rows))

    def __len__(self) -> int:
        return self._count

    def batch(self, index: Tensor, device: torch.device | None = None) -> Batch:
        """The rows with these numbers."""
        return self._rows.batch(index, device)


class SomeRows:
    """Rows of a dataset that were drawn once, the same in every run: a small picture of the whole.

    Args:
        rows: The dataset.
        count: How many rows; all where it has fewer.
        seed: The seed of the choice.

    Example:
        >>> from jsa.data import IndexedDataset
        >>> rows = SomeRows(IndexedDataset(torch.arange(2).repeat(50, 1).to(torch.uint8)), 3)
        >>> len(rows), rows.batch(torch.arange(3)).index.tolist() == rows.numbers.tolist()
        (3, True)
    """

    def __init__(self, rows: Rows, count: int, seed: int = 0) -> None:
        self._rows = rows
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
        self.numbers = order[:count].sort().values

    def __len__(self) -> int:
        return len(self.numbers)

    def batch(self, index: Tensor, device: torch.device | None = None) -> Batch:
        """The chosen rows with these numbers among them."""
        return self._rows.batch(self.numbers[index], device)
