"""Three parts that fit together."""

from __future__ import annotations

import pytest
import torch

from jsa.data import IndexedDataset, Splits
from jsa.errors import UsageError


def zeros(columns: int, classes: int = 2) -> IndexedDataset:
    return IndexedDataset(torch.zeros(2, columns, dtype=torch.uint8), classes=classes)


def test_parts_of_other_columns_are_refused():
    with pytest.raises(UsageError, match="test and train of thing do not have the same columns"):
        Splits("thing", zeros(4), zeros(4), zeros(5), classes=2)
    with pytest.raises(UsageError, match="valid and train of thing do not have the same columns"):
        Splits("thing", zeros(4), zeros(5).split_context(1), zeros(4), classes=2)


def test_parts_of_other_classes_are_refused():
    with pytest.raises(UsageError, match="valid of thing has 3 classes, not 2"):
        Splits("thing", zeros(4), zeros(4, classes=3), zeros(4), classes=2)
