"""Draws that are exact, the same everywhere, and drawn anew every epoch by the seed and the epoch alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jsa.data import Conditioned, DynamicBinarization, Schema
from jsa.data.binarization import bernoulli, threshold
from jsa.data.streams import permutation, raw_stream
from jsa.errors import UsageError

GRAY = torch.randint(256, (60, 40), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
EVERY_ROW = torch.arange(60)


def test_threshold_is_above_a_half() -> None:
    gray = np.arange(256, dtype=np.uint8)
    assert np.array_equal(threshold(gray), gray / 255 > 0.5)


def test_black_is_never_on_and_white_always() -> None:
    assert bernoulli(np.zeros((200, 784), np.uint8), "test").sum() == 0
    assert bernoulli(np.full((200, 784), 255, np.uint8), "test").all()


def test_each_intensity_has_its_probability() -> None:
    draws = 4_000
    gray = np.tile(np.arange(256, dtype=np.uint8), (draws, 1))
    frequency = bernoulli(gray, "test", 7).mean(axis=0)
    probability = np.arange(256) / 255
    spread = np.sqrt(probability * (1 - probability) / draws)
    assert np.all(np.abs(frequency - probability) <= 4.5 * spread)


def test_the_draw_is_made_of_the_bytes_that_are_not_255() -> None:
    gray = np.random.default_rng(0).integers(0, 256, 300_000).astype(np.uint8)
    stream = raw_stream("test", 1).random_raw(40_000).astype("<u8").tobytes()
    uniform = [byte for byte in stream if byte != 255][: gray.size]
    assert bernoulli(gray, "test", 1).tolist() == [int(u < g) for u, g in zip(uniform, gray.tolist(), strict=True)]


def test_the_stream_is_pinned() -> None:
    assert raw_stream("mnist-static train").random_raw(2).tolist() == [8792580819182464118, 11229523814050607984]


def test_streams_of_different_names_differ() -> None:
    names: list[tuple[str, *tuple[int, ...]]] = [("a",), ("b",), ("a", 0, 1), ("a", 1, 0), ("a", 1), ("a", 1, 12)]
    names.append(("a", 11, 2))
    assert len({tuple(raw_stream(*name).random_raw(2)) for name in names}) == len(names)


@given(st.integers(1, 300), st.integers())
def test_a_permutation_has_every_number_once(count: int, seed: int) -> None:
    assert sorted(permutation(count, "test", seed).tolist()) == list(range(count))


def test_permutations_of_different_seeds_differ() -> None:
    assert permutation(50, "test", 0).tolist() != permutation(50, "test", 1).tolist()


def rows_at(epoch: int, *, seed: int = 1, through: tuple[int, ...] = ()) -> torch.Tensor:
    data = DynamicBinarization(GRAY, seed=seed)
    for earlier in (*through, epoch):
        data.start_epoch(earlier)
    return data.batch(EVERY_ROW).x


def test_rows_are_determined_by_seed_and_epoch() -> None:
    assert torch.equal(rows_at(7), rows_at(7, through=(1, 2, 9, 7)))
    assert not torch.equal(rows_at(0), rows_at(1))
    assert not torch.equal(rows_at(0), rows_at(0, seed=2))
    assert not torch.equal(rows_at(1, seed=2), rows_at(2, seed=1))
    assert torch.equal(DynamicBinarization(GRAY, seed=1).batch(EVERY_ROW).x, rows_at(0))


def test_the_mean_over_epochs_is_the_intensity() -> None:
    data = DynamicBinarization(GRAY, seed=4)
    total = torch.zeros(60, 40)
    for epoch in range(400):
        data.start_epoch(epoch)
        total += data.batch(EVERY_ROW).x
    probability = GRAY.double() / 255
    spread = (probability * (1 - probability) / 400).sqrt()
    assert ((total / 400 - probability).abs() <= 5 * spread + 1e-9).all()


def test_drawn_rows_are_a_dataset_as_any() -> None:
    labels = torch.arange(60, dtype=torch.uint8)
    data = DynamicBinarization(GRAY, seed=1, labels=labels)
    assert (len(data), data.schema, data.rows_change) == (60, Schema.of(40), True)
    assert data.batch(torch.tensor([5, 3])).row_numbers.tolist() == [5, 3]
    assert data.labels is labels


def test_the_context_is_drawn_with_its_row() -> None:
    data = Conditioned(DynamicBinarization(GRAY, seed=1), 15)
    data.start_epoch(6)
    batch = data.batch(EVERY_ROW)
    assert batch.context is not None
    assert data.rows_change
    assert torch.equal(torch.cat([batch.context, batch.x], dim=1), rows_at(6))


def test_gray_must_be_bytes() -> None:
    with pytest.raises(UsageError, match="gray must be a uint8 tensor"):
        DynamicBinarization(GRAY.float(), seed=1)
