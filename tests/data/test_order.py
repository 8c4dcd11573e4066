"""The order of visits: complete, of the right sizes, and determined by seed and epoch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jsa.data import batches_in_epoch, epoch_order, in_order
from jsa.errors import UsageError

ROWS = st.integers(1, 400)
SIZES = st.integers(1, 130)
SEEDS = st.integers(-(2**70), 2**70)
EPOCHS = st.integers(0, 10**6)


def expected_sizes(rows: int, size: int) -> list[int]:
    return [min(size, rows - start) for start in range(0, rows, size)]


@given(ROWS, SIZES, SEEDS, EPOCHS)
def test_shuffle_visits_every_row_once(rows, size, seed, epoch):
    batches = list(epoch_order(rows, size, seed, epoch))
    assert [len(index) for index in batches] == expected_sizes(rows, size)
    assert sorted(torch.cat(batches).tolist()) == list(range(rows))
    assert {index.dtype for index in batches} == {torch.int64}


@given(ROWS, SIZES, SEEDS, EPOCHS)
def test_random_scan_has_the_same_batches_of_any_rows(rows, size, seed, epoch):
    batches = list(epoch_order(rows, size, seed, epoch, scan="random"))
    assert [len(index) for index in batches] == expected_sizes(rows, size)
    assert set(torch.cat(batches).tolist()) <= set(range(rows))
    assert {index.dtype for index in batches} == {torch.int64}


@given(ROWS, SIZES)
def test_in_order_is_in_order(rows, size):
    batches = list(in_order(rows, size))
    assert [len(index) for index in batches] == expected_sizes(rows, size)
    assert torch.cat(batches).tolist() == list(range(rows))
    assert batches_in_epoch(rows, size) == len(batches)


@pytest.mark.parametrize("scan", ["shuffle", "random"])
def test_the_order_is_determined_by_seed_and_epoch(scan):
    def order(seed: int, epoch: int) -> list[int]:
        torch.manual_seed(seed + epoch)  # the global generator must not matter
        return torch.cat(list(epoch_order(500, 64, seed, epoch, scan))).tolist()

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(1, 3)
    assert order(1, 2) != order(2, 2)
    assert order(1, 2) != order(2, 1)


def test_the_global_generator_is_left_alone():
    torch.manual_seed(0)
    state = torch.get_rng_state()
    list(epoch_order(100, 10, 0, 0))
    list(epoch_order(100, 10, 0, 0, scan="random"))
    assert torch.equal(torch.get_rng_state(), state)


def test_random_scan_is_uniform_with_replacement():
    visits = torch.cat([index for epoch in range(200) for index in epoch_order(50, 50, 3, epoch, scan="random")])
    counts = torch.bincount(visits, minlength=50).double()
    expected = 200.0
    chi_square = ((counts - expected) ** 2 / expected).sum().item()
    assert 20 < chi_square < 90  # 49 degrees of freedom; every row once an epoch would give 0


def test_shuffled_positions_are_uniform():
    first = torch.stack([next(epoch_order(10, 10, 3, epoch)) for epoch in range(2_000)])
    counts = torch.stack([(first == row).sum(0) for row in range(10)]).double()
    chi_square = ((counts - 200) ** 2 / 200).sum().item()
    assert 40 < chi_square < 140  # 81 degrees of freedom


def test_what_is_no_order_is_refused():
    with pytest.raises(UsageError, match="rows is 1 or more, not 0"):
        epoch_order(0, 1, 0, 0)
    with pytest.raises(UsageError, match="batch-size is 1 or more, not 0"):
        in_order(3, 0)
    with pytest.raises(UsageError, match="batch-size is 1 or more, not -1"):
        batches_in_epoch(3, -1)
    with pytest.raises(UsageError, match="there is no scan 'shufle': did you mean 'shuffle'"):
        epoch_order(3, 1, 0, 0, scan="shufle")
