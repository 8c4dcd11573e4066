"""Datasets of binary or categorical rows: built in, fetched, or the user's own tables.

Importing this package loads neither torch nor numpy, so that the command line can name the datasets at
once. Everything heavier arrives with the first use of the name that needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from jsa.data.catalog import describe, names

if TYPE_CHECKING:
    from jsa.data.binarization import DynamicBinarization
    from jsa.data.dataset import Conditioned, Dataset, IndexedDataset
    from jsa.data.downloads import fetch
    from jsa.data.loading import load
    from jsa.data.order import Scan, batches_in_epoch, epoch_order
    from jsa.data.schema import Schema
    from jsa.data.splits import Splits

__all__ = [
    "Conditioned",
    "Dataset",
    "DynamicBinarization",
    "IndexedDataset",
    "Scan",
    "Schema",
    "Splits",
    "batches_in_epoch",
    "describe",
    "epoch_order",
    "fetch",
    "load",
    "names",
]

_HOMES = {
    "Conditioned": "dataset",
    "Dataset": "dataset",
    "DynamicBinarization": "binarization",
    "IndexedDataset": "dataset",
    "Scan": "order",
    "Schema": "schema",
    "Splits": "splits",
    "batches_in_epoch": "order",
    "epoch_order": "order",
    "fetch": "downloads",
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
