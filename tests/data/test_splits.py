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


def test_the_summary_says_what_was_read():
    assert Splits("thing", zeros(4), zeros(4), zeros(4), classes=2).summary == (
        "thing: 2 training rows, 2 validation rows, 2 test rows; 4 columns, binary"
    )
    one = IndexedDataset(torch.zeros(1, 1, dtype=torch.uint8), classes=3)
    assert Splits("thing", one, one, one, classes=3).summary == (
        "thing: 1 training row, 1 validation row, 1 test row; 1 column, 3 classes"
    )


def test_the_summary_counts_the_context(threshold):
    assert threshold.split_context(392).summary == (
        "mnist-threshold: 55,000 training rows, 5,000 validation rows, 10,000 test rows; 784 columns, the first 392 "
        "given, binary"
    )


def test_rows_that_are_from_no_table_have_their_own_numbers(threshold):
    assert not threshold.of_one_table
    assert threshold.row_numbers("valid")[[0, -1]].tolist() == [0, 4999]
