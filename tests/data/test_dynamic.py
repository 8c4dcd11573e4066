"""Rows drawn anew every epoch, by the seed and the epoch alone."""

from __future__ import annotations

import pytest
import torch

from jsa.data import DynamicBinarization
from jsa.errors import UsageError

GRAY = torch.randint(256, (60, 40), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
EVERY_ROW = torch.arange(60)


def rows_at(epoch: int, *, seed: int = 1, through: tuple[int, ...] = ()) -> torch.Tensor:
    data = DynamicBinarization(GRAY, seed=seed)
    for earlier in through:
        data.start_epoch(earlier)
    data.start_epoch(epoch)
    return data.batch(EVERY_ROW).x


def test_an_epoch_is_the_same_whatever_went_before():
    assert torch.equal(rows_at(7), rows_at(7, through=(1, 2, 9)))


def test_epochs_and_seeds_differ():
    assert not torch.equal(rows_at(0), rows_at(1))
    assert not torch.equal(rows_at(0), rows_at(0, seed=2))
    assert not torch.equal(rows_at(1, seed=2), rows_at(2, seed=1))


def test_rows_are_those_of_epoch_0_at_first():
    assert torch.equal(DynamicBinarization(GRAY, seed=1).batch(EVERY_ROW).x, rows_at(0))


def test_rows_stay_within_an_epoch():
    data = DynamicBinarization(GRAY, seed=1)
    data.start_epoch(3)
    first = data.batch(EVERY_ROW).x
    data.start_epoch(3)
    assert torch.equal(first, data.batch(EVERY_ROW).x)


def test_the_mean_over_epochs_is_the_intensity():
    data = DynamicBinarization(GRAY, seed=4)
    total = torch.zeros(60, 40)
    for epoch in range(400):
        data.start_epoch(epoch)
        total += data.batch(EVERY_ROW).x
    probability = GRAY.double() / 255
    spread = (probability * (1 - probability) / 400).sqrt()
    assert ((total / 400 - probability).abs() <= 5 * spread + 1e-9).all()


def test_the_interface_is_that_of_any_dataset():
    labels = torch.arange(60, dtype=torch.uint8)
    data = DynamicBinarization(GRAY, seed=1, labels=labels)
    assert (len(data), data.classes, data.rows_change) == (60, 2, True)
    assert (data.observed_columns, data.observed_width, data.context_columns, data.context_width) == (40, 40, 0, 0)
    assert data.batch(torch.tensor([5, 3])).index.tolist() == [5, 3]
    assert torch.equal(data.labels, labels)


def test_the_context_is_drawn_with_its_row():
    data = DynamicBinarization(GRAY, seed=1).split_context(15)
    data.start_epoch(6)
    batch = data.batch(EVERY_ROW)
    assert (data.observed_columns, data.context_columns, data.context_width) == (25, 15, 15)
    assert torch.equal(torch.cat([batch.context, batch.x], dim=1), rows_at(6))
    with pytest.raises(UsageError, match="already have a context of 15"):
        data.split_context(2)


def test_gray_must_be_bytes():
    with pytest.raises(UsageError, match="gray must be a uint8 tensor"):
        DynamicBinarization(GRAY.float(), seed=1)
