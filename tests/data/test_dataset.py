"""Rows by number, as floating point."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jsa.data import IndexedDataset, epoch_order
from jsa.errors import UsageError


def rows_of(*values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.uint8)


def test_a_binary_batch_is_the_rows_asked_for():
    data = IndexedDataset(rows_of([0, 1, 1], [1, 0, 0], [1, 1, 1]))
    batch = data.batch(torch.tensor([2, 0, 2]))
    assert batch.x.dtype == torch.float32
    assert batch.x.tolist() == [[1, 1, 1], [0, 1, 1], [1, 1, 1]]
    assert batch.index.tolist() == [2, 0, 2]
    assert batch.index.dtype == torch.int64
    assert batch.context is None
    assert (len(data), data.observed_columns, data.observed_width) == (3, 3, 3)
    assert (data.context_columns, data.context_width) == (0, 0)
    assert data.rows_change is False


def test_a_categorical_batch_is_one_hot_with_variables_side_by_side():
    data = IndexedDataset(rows_of([0, 2], [1, 1]), classes=3)
    assert data.batch(torch.tensor([1, 0])).x.tolist() == [[0, 1, 0, 0, 1, 0], [1, 0, 0, 0, 0, 1]]
    assert data.observed_columns == 2
    assert data.observed_width == 6


def test_the_largest_number_of_classes_is_one_hot_too():
    data = IndexedDataset(rows_of([255, 0]), classes=256)
    assert data.batch(torch.tensor([0])).x.nonzero().tolist() == [[0, 255], [0, 256]]


@given(st.integers(3, 7), st.integers(1, 5), st.integers(1, 20), st.integers(0, 1_000))
def test_one_hot_agrees_with_torch(classes, columns, rows, seed):
    values = torch.randint(classes, (rows, columns), generator=torch.Generator().manual_seed(seed))
    batch = IndexedDataset(values.to(torch.uint8), classes=classes).batch(torch.arange(rows))
    assert torch.equal(batch.x, torch.nn.functional.one_hot(values, classes).flatten(1).float())


def test_row_numbers_stay_with_their_rows_whatever_the_order():
    numbers = torch.arange(1_000)
    bits = (numbers.unsqueeze(1) >> torch.arange(10)) & 1  # a row spells its own number
    data = IndexedDataset(bits.to(torch.uint8))
    for index in epoch_order(1_000, 64, seed=5, epoch=2):
        batch = data.batch(index)
        assert torch.equal((batch.x.long() << torch.arange(10)).sum(1), batch.index)


def test_a_batch_goes_to_the_device_that_is_named():
    batch = IndexedDataset(rows_of([0, 1], [1, 1])).split_context(1).batch(torch.tensor([1]), device="meta")
    assert batch.context is not None
    assert {batch.x.device.type, batch.index.device.type, batch.context.device.type} == {"meta"}


def test_what_is_missing_is_nan():
    missing = torch.tensor([[False, True], [False, False], [True, False]])
    nan = torch.nan
    for classes, width in ((2, 1), (3, 3)):
        data = IndexedDataset(rows_of([0, 1], [1, 1], [1, 0]), classes=classes, missing=missing)
        found = data.batch(torch.tensor([2, 0])).x
        assert torch.equal(found.isnan(), missing[[2, 0]].repeat_interleave(width, 1))
    assert torch.allclose(found[0], torch.tensor([nan, nan, nan, 1, 0, 0]), equal_nan=True)


def test_the_context_is_split_off_the_first_columns():
    data = IndexedDataset(rows_of([0, 1, 2], [2, 1, 0]), classes=3, labels=rows_of([7, 8])[0])
    halves = data.split_context(1)
    batch = halves.batch(torch.tensor([1]))
    assert batch.context.tolist() == [[0, 0, 1]]
    assert batch.x.tolist() == [[0, 1, 0, 1, 0, 0]]
    assert (halves.observed_columns, halves.observed_width) == (2, 6)
    assert (halves.context_columns, halves.context_width) == (1, 3)
    assert halves.labels.tolist() == [7, 8]


def test_half_a_digit_is_the_context_of_the_other_half(threshold):
    halves = threshold.split_context(28 * 14)
    index = torch.tensor([3, 41])
    whole = threshold.test.batch(index).x
    batch = halves.test.batch(index)
    assert torch.equal(torch.cat([batch.context, batch.x], dim=1), whole)
    assert halves.train.context_columns == halves.valid.context_columns == 392
    assert halves.image_shape == (28, 28)


@pytest.mark.parametrize("columns", [0, -1, 3, 4])
def test_a_context_must_leave_something_on_both_sides(columns):
    with pytest.raises(UsageError, match="give a number from 1 to 2"):
        IndexedDataset(rows_of([0, 1, 1])).split_context(columns)


def test_one_column_has_no_context():
    with pytest.raises(UsageError, match=r"rows of 1 column cannot be divided .* needs 2 columns or more"):
        IndexedDataset(rows_of([0], [1])).split_context(0)


def test_a_context_is_split_off_once():
    with pytest.raises(UsageError, match="already have a context of 1 columns"):
        IndexedDataset(rows_of([0, 1, 1])).split_context(1).split_context(1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"rows": rows_of([0, 2])}, "rows holds the value 2, but 2 classes go up to 1"),
        ({"rows": torch.zeros(2, 3)}, "rows must be a uint8 tensor of two dimensions"),
        ({"rows": torch.zeros(2, dtype=torch.uint8)}, "rows must be a uint8 tensor of two dimensions"),
        ({"rows": torch.zeros(0, 3, dtype=torch.uint8)}, "holds nothing"),
        (
            {"rows": rows_of([0, 1]), "missing": torch.zeros(2, 1) > 0},
            r"missing must be a bool tensor of shape \(1, 2\)",
        ),
        ({"rows": rows_of([0, 1]), "missing": torch.zeros(1, 2)}, "it is torch.float32"),
        ({"rows": rows_of([0, 1]), "classes": 1}, "between 2 and 256"),
        ({"rows": rows_of([0, 1]), "classes": 257}, "between 2 and 256"),
        ({"rows": rows_of([0, 1]), "context": rows_of([0], [1])}, "context has 2 rows, but there are 1"),
        ({"rows": rows_of([0, 1]), "context": rows_of([5])}, "context holds the value 5"),
        ({"rows": rows_of([0, 1]), "labels": rows_of([1, 2])[0]}, "labels has 2 rows, but there are 1"),
    ],
)
def test_what_is_no_dataset_is_refused(arguments, sentence):
    with pytest.raises(UsageError, match=sentence):
        IndexedDataset(**arguments)


def test_a_row_number_beyond_the_end_is_an_error():
    with pytest.raises(IndexError):
        IndexedDataset(rows_of([0, 1])).batch(torch.tensor([1]))
