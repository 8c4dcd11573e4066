"""Rows of a map-style dataset, whose items become batches."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from jsa.batch import Batch
from jsa.data.streams import stream_digest
from jsa.errors import UsageError

ToBatch = Callable[[Sequence[Any], Int64[Tensor, " batch"]], Batch]
"""Makes a batch of items and their row numbers."""

DECIDED = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "collate_fn", "drop_last", "generator")
"""Options of a DataLoader that are not the caller's."""


class ItemRows:
    """The rows of a map-style dataset: item i is row i.

    Args:
        dataset: An object with ``len()`` and items by number.
        to_batch: Makes a batch of some items and their row numbers; not needed if an item is x as a tensor.
        loader: Options of ``torch.utils.data.DataLoader`` for reading ahead, such as ``num_workers``.

    Example:
        >>> rows = ItemRows([(torch.tensor([0.0, 1.0]), "zero"), (torch.tensor([1.0, 1.0]), "one")],
        ...     lambda items, numbers: Batch(torch.stack([x for x, _ in items]), numbers))
        >>> rows.batch(torch.tensor([1])).x
        tensor([[1., 1.]])
    """

    def __init__(self, dataset: Any, to_batch: ToBatch | None = None, loader: Mapping[str, Any] | None = None) -> None:
        for name in loader or {}:
            if name in DECIDED:
                raise UsageError(
                    f"loader takes options for reading ahead, such as num_workers, and not {name}: leave it out"
                )
        self._items = _Items(dataset, to_batch or _tensors_to_batch)
        self._loader = dict(loader or {})

    def __len__(self) -> int:
        return len(self._items)

    def batch(self, index: Tensor, device: torch.device | None = None) -> Batch:
        """Return the rows with these numbers."""
        return self._items[index].to(device)

    def batches(self, numbers: Iterable[Tensor], device: torch.device | None = None) -> Iterator[Batch]:
        """Yield the rows with these numbers, a batch for each tensor of them."""
        if not self._loader:
            for index in numbers:
                yield self.batch(index, device)
            return
        order = [index.contiguous() for index in numbers]
        # Workers draw from a stream that the order gives, other in each epoch, and not from that of the training.
        stream = stream_digest("workers", *(order[0].tolist() if order else ()))
        loader = DataLoader(
            self._items,
            batch_size=None,
            sampler=order,
            generator=torch.Generator().manual_seed(int.from_bytes(stream[:8], "little") >> 1),
            **{**self._loader, "worker_init_fn": partial(_begin_worker, self._loader.get("worker_init_fn"))},
        )
        for batch in loader:
            yield batch.to(device)


class _Items(Dataset[Batch]):
    """A view of a dataset whose items are batches, under tensors of row numbers."""

    def __init__(self, dataset: Any, to_batch: ToBatch) -> None:
        self._dataset, self._to_batch = dataset, to_batch

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Tensor) -> Batch:
        found = self._to_batch([self._dataset[number] for number in index.tolist()], index)
        if not isinstance(found, Batch):
            raise UsageError(f"to_batch returned {type(found).__name__}: return a jsa.Batch")
        if len(found) != len(index):
            raise UsageError(f"to_batch returned {len(found)} rows for {len(index)} items: return one row per item")
        # The numbers are known here, whether or not they were passed on.
        return replace(found, index=index)


def _tensors_to_batch(items: Sequence[Any], numbers: Tensor) -> Batch:
    for item in items:
        if not isinstance(item, Tensor):
            raise UsageError(
                f"an item of this dataset is a {type(item).__name__}, not a tensor x: pass to_batch, a function of "
                "some items and their row numbers that returns a jsa.Batch"
            )
    return Batch(default_collate(list(items)), numbers)


def _begin_worker(own: Callable[[int], object] | None, worker: int) -> None:
    # Ctrl-C reaches all processes of a terminal; the main one saves what it has and then ends these.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if own is not None:
        own(worker)
