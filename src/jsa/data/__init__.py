"""Datasets of binary or categorical rows: built in, fetched, or the user's own tables.

Importing this package loads neither torch nor numpy, so that the command line can name the datasets at
once. Everything heavier arrives with the first use of the name that needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from jsa.data.catalogue import describe, names

if TYPE_CHECKING:
    from jsa.data.dataset import Dataset, IndexedDataset
    from jsa.data.download import fetch
    from jsa.data.dynamic import DynamicBinarisation
    from jsa.data.loading import load
    from jsa.data.splits import Splits
    from jsa.data.visits import Scan, batches_in_epoch, epoch_order, in_order

__all__ = [
    "Dataset",
    "DynamicBinarisation",
    "IndexedDataset",
    "Scan",
    "Splits",
    "batches_in_epoch",
    "describe",
    "epoch_order",
    "fetch",
    "in_order",
    "load",
    "names",
]

_HOMES = {
    "Dataset": "dataset",
    "DynamicBinarisation": "dynamic",
    "IndexedDataset": "dataset",
    "Scan": "visits",
    "Splits": "splits",
    "batches_in_epoch": "visits",
    "epoch_order": "visits",
    "fetch": "download",
    "in_order": "visits",
    "load": "loading",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
