"""Parts of a dataset."""

from __future__ import annotations

import torch
from torch import Tensor

from jsa.evaluation.likelihood import Rows
from jsa.types import Batch


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
