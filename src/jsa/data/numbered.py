"""Items of any map-style dataset with their row numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.utils.data import DataLoader, Dataset, IterableDataset

from jsa.batch import RowNumber
from jsa.errors import UsageError


class Numbered(Dataset[tuple[Any, ...]]):
    """A view of a map-style dataset whose items end with their row number; ``numbered`` makes it."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, number: int) -> tuple[Any, ...]:
        if not -len(self) <= number < len(self):
            raise IndexError(f"there is no item {number} among {len(self)}")
        # A negative number counts from the end, but a chain has one name.
        number = RowNumber(number % len(self))
        item = self._dataset[number]
        if isinstance(item, Mapping):
            raise UsageError(
                "items that are dictionaries have no place for a number: let the dataset return tuples, x first"
            )
        return (*item, number) if isinstance(item, (tuple, list)) else (item, number)


def numbered(dataset: Any) -> Numbered:
    """Return a view of a map-style dataset whose items end with their row number, which tells the row's chain.

    Number the whole dataset before a ``Subset`` of it is taken, with ``rows=len(dataset)`` for the estimator, or the
    subset, with ``rows=len(subset)``. ``Batch.collate`` makes batches of the items.

    Args:
        dataset: An object with ``len()`` and items by number, such as a ``torch.utils.data.Dataset``. An item is x, or
            a tuple with x first.

    Example:
        >>> import torch
        >>> from jsa import Batch
        >>> digits = torch.utils.data.TensorDataset(torch.eye(4), torch.arange(4))
        >>> loader = torch.utils.data.DataLoader(numbered(digits), batch_size=3, collate_fn=Batch.collate)
        >>> [batch.index.tolist() for batch in loader]
        [[0, 1, 2], [3]]
    """
    if isinstance(dataset, DataLoader):
        raise UsageError("a DataLoader gives batches: number its dataset, jsa.numbered(loader.dataset), and load that")
    if isinstance(dataset, IterableDataset) or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise UsageError(
            f"{type(dataset).__name__} has no items by number, so that a row could not find its chain again: use a "
            "dataset with len() and items by number"
        )
    return Numbered(dataset)
