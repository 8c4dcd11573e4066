"""Three parts that fit together."""

from __future__ import annotations

import pytest
import torch

from jsa.data import Conditioned, Dataset, IndexedDataset, Schema, Splits
from jsa.errors import UsageError


def zeros(columns: int, classes: int = 2, rows: int = 2) -> IndexedDataset:
    return IndexedDataset(torch.zeros(rows, columns, dtype=torch.uint8), Schema.of(columns, classes))


@pytest.mark.parametrize(
    ("valid", "test", "sentence"),
    [
        (zeros(4), zeros(5), "test and train of thing do not have the same columns"),
        (Conditioned(zeros(5), 1), zeros(4), "valid and train of thing do not have the same columns"),
        (zeros(4, classes=3), zeros(4), "valid of thing has 3 classes, not 2"),
    ],
)
def test_parts_of_other_columns_are_refused(valid: Dataset, test: Dataset, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Splits("thing", zeros(4), valid, test)


def test_the_summary_says_what_was_read(threshold: Splits) -> None:
    assert Splits("thing", zeros(4), zeros(4), zeros(4)).summary == (
        "thing: 2 training rows, 2 validation rows, 2 test rows; 4 columns, binary"
    )
    one = zeros(1, classes=3, rows=1)
    assert Splits("thing", one, one, one).summary == (
        "thing: 1 training row, 1 validation row, 1 test row; 1 column, 3 classes"
    )
    assert threshold.split_context(392).summary == (
        "mnist-threshold: 55,000 training rows, 5,000 validation rows, 10,000 test rows; 784 columns, the first 392 "
        "given, binary"
    )


def test_rows_that_are_from_no_table_have_their_own_numbers(threshold: Splits) -> None:
    assert not threshold.of_one_table
    assert threshold.row_numbers("valid")[[0, -1]].tolist() == [0, 4999]
