"""Rows by number, as floating point, and with a context."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jsa.data import Conditioned, IndexedDataset, Schema, Splits, epoch_order
from jsa.errors import UsageError


def rows_of(*values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.uint8)


def test_a_binary_batch_is_the_rows_asked_for() -> None:
    data = IndexedDataset(rows_of([0, 1, 1], [1, 0, 0], [1, 1, 1]))
    batch = data.batch(torch.tensor([2, 0, 2]))
    assert (batch.x.dtype, batch.row_numbers.dtype, batch.context) == (torch.float32, torch.int64, None)
    assert batch.x.tolist() == [[1, 1, 1], [0, 1, 1], [1, 1, 1]]
    assert batch.row_numbers.tolist() == [2, 0, 2]
    assert (len(data), data.schema, data.rows_change) == (3, Schema.of(3), False)


def test_a_categorical_batch_is_one_hot_with_variables_side_by_side() -> None:
    data = IndexedDataset(rows_of([0, 2], [1, 1]), Schema.of(2, classes=3))
    assert data.batch(torch.tensor([1, 0])).x.tolist() == [[0, 1, 0, 0, 1, 0], [1, 0, 0, 0, 0, 1]]
    most = IndexedDataset(rows_of([255, 0]), Schema.of(2, classes=256))
    assert most.batch(torch.tensor([0])).x.nonzero().tolist() == [[0, 255], [0, 256]]


@given(st.integers(3, 7), st.integers(1, 5), st.integers(1, 20), st.integers(0, 1_000))
def test_one_hot_agrees_with_torch(classes: int, columns: int, rows: int, seed: int) -> None:
    values = torch.randint(classes, (rows, columns), generator=torch.Generator().manual_seed(seed))
    batch = IndexedDataset(values.to(torch.uint8), Schema.of(columns, classes)).batch(torch.arange(rows))
    assert torch.equal(batch.x, torch.nn.functional.one_hot(values, classes).flatten(1).float())


def test_row_numbers_stay_with_their_rows_whatever_the_order() -> None:
    numbers = torch.arange(1_000)
    bits = (numbers.unsqueeze(1) >> torch.arange(10)) & 1  # a row spells its own number
    data = IndexedDataset(bits.to(torch.uint8))
    for index in epoch_order(1_000, 64, seed=5, epoch=2):
        batch = data.batch(index)
        assert torch.equal((batch.x.long() << torch.arange(10)).sum(1), batch.row_numbers)


def test_a_batch_goes_to_the_device_that_is_named() -> None:
    batch = Conditioned(IndexedDataset(rows_of([0, 1], [1, 1])), 1).batch(torch.tensor([1]), device="meta")
    assert batch.context is not None
    assert {batch.x.device.type, batch.context.device.type} == {"meta"}
    assert batch.row_numbers.tolist() == [1]


def test_what_is_missing_is_nan() -> None:
    missing = torch.tensor([[False, True], [False, False], [True, False]])
    for classes, width in ((2, 1), (3, 3)):
        data = IndexedDataset(rows_of([0, 1], [1, 1], [1, 0]), Schema.of(2, classes), missing=missing)
        found = data.batch(torch.tensor([2, 0])).x
        assert torch.equal(found.isnan(), missing[[2, 0]].repeat_interleave(width, 1))
        assert data.schema.missing
    assert torch.allclose(found[0], torch.tensor([torch.nan] * 3 + [1, 0, 0]), equal_nan=True)


def test_the_first_columns_are_the_context() -> None:
    missing = torch.tensor([[False, False, True], [False, False, False]])
    whole = IndexedDataset(
        rows_of([0, 1, 2], [2, 1, 0]), Schema.of(3, classes=3), labels=rows_of([7, 8])[0], missing=missing
    )
    halves = Conditioned(whole, 1)
    batch = halves.batch(torch.tensor([1]))
    assert batch.context is not None
    assert (batch.context.tolist(), batch.x.tolist()) == ([[0, 0, 1]], [[0, 1, 0, 1, 0, 0]])
    assert halves.schema == whole.schema.conditioned(1)
    assert (halves.schema.observed_width, halves.schema.context_width, len(halves)) == (6, 3, 2)
    assert halves.missing is not None
    assert torch.equal(halves.missing, missing[:, 1:])
    assert halves.labels is whole.labels


def test_a_weight_goes_with_its_row() -> None:
    data = IndexedDataset(rows_of([0, 1], [1, 1], [1, 0]), weights=torch.tensor([1.0, 0.0, 2.5]))
    for rows in (data, Conditioned(data, 1)):
        weight = rows.batch(torch.tensor([2, 1])).weight
        assert weight is not None
        assert weight.tolist() == [2.5, 0.0]
        moved = rows.batch(torch.tensor([2, 1]), device="meta").weight
        assert moved is not None
        assert moved.device.type == "meta"


def test_half_a_digit_is_the_context_of_the_other_half(threshold: Splits) -> None:
    halves = threshold.split_context(28 * 14)
    index = torch.tensor([3, 41])
    batch = halves.test.batch(index)
    assert batch.context is not None
    assert torch.equal(torch.cat([batch.context, batch.x], dim=1), threshold.test.batch(index).x)
    assert halves.schema.context_columns == halves.valid.schema.context_columns == 392
    assert halves.schema.image_shape == (28, 28)


ONE, THREE = IndexedDataset(rows_of([0], [1])), IndexedDataset(rows_of([0, 1, 1]))


@pytest.mark.parametrize(
    ("rows", "columns", "sentence"),
    [
        *((THREE, columns, "give a number from 1 to 2") for columns in (0, -1, 3, 4)),
        (ONE, 0, r"rows of 1 column cannot be divided .* needs 2 columns or more"),
        (Conditioned(THREE, 1), 1, "already have a context of 1 columns"),
    ],
)
def test_a_context_must_leave_something_on_both_sides(rows: IndexedDataset, columns: int, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Conditioned(rows, columns)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"rows": rows_of([0, 2])}, "rows holds the value 2, but 2 classes go up to 1"),
        ({"rows": torch.zeros(2, 3)}, "rows must be a uint8 tensor of two dimensions"),
        ({"rows": torch.zeros(2, dtype=torch.uint8)}, "rows must be a uint8 tensor of two dimensions"),
        ({"rows": torch.zeros(0, 3, dtype=torch.uint8)}, "has no values"),
        ({"missing": torch.zeros(2, 1) > 0}, r"missing must be a bool tensor of shape \(1, 2\)"),
        ({"missing": torch.zeros(1, 2)}, "it is torch.float32"),
        ({"schema": Schema.of(3)}, "rows of 2 columns need a schema of that width without context"),
        ({"schema": Schema.of(3).conditioned(1)}, "rows of 2 columns need a schema of that width without context"),
        ({"labels": rows_of([1, 2])[0]}, "labels has 2 rows, but there are 1"),
        ({"weights": torch.ones(2)}, r"1 rows need one weight per row, .* not torch.float32 of shape \(2,\)"),
        ({"weights": torch.tensor([-1.0])}, "row 0 has weight -1.0: give a finite number that is not negative"),
    ],
)
def test_what_is_no_dataset_is_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        IndexedDataset(**{"rows": rows_of([0, 1]), **arguments})


def test_a_row_number_beyond_the_end_is_an_error() -> None:
    with pytest.raises(IndexError):
        THREE.batch(torch.tensor([1]))
