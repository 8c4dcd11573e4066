"""The order of visits: complete, of the right sizes, and determined by seed and epoch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jsa.data import Scan, batches_in_epoch, epoch_order
from jsa.errors import UsageError

SCANS: tuple[Scan, Scan] = ("shuffle", "random")


@pytest.mark.parametrize("scan", SCANS)
@given(st.integers(1, 400), st.integers(1, 130), st.integers(-(2**70), 2**70), st.integers(0, 10**6))
def test_an_epoch_is_as_many_visits_as_rows(scan: Scan, rows: int, size: int, seed: int, epoch: int) -> None:
    batches = list(epoch_order(rows, size, seed, epoch, scan=scan))
    assert [len(index) for index in batches] == [min(size, rows - start) for start in range(0, rows, size)]
    assert batches_in_epoch(rows, size) == len(batches)
    assert {index.dtype for index in batches} == {torch.int64}
    visits = torch.cat(batches).tolist()
    if scan == "shuffle":
        assert sorted(visits) == list(range(rows))
    assert set(visits) <= set(range(rows))


@pytest.mark.parametrize("scan", SCANS)
def test_the_order_is_determined_by_seed_and_epoch(scan: Scan) -> None:
    def order(seed: int, epoch: int) -> list[int]:
        torch.manual_seed(seed + epoch)  # the global generator must not matter
        state = torch.get_rng_state()
        visits = torch.cat(list(epoch_order(500, 64, seed, epoch, scan))).tolist()
        assert torch.equal(torch.get_rng_state(), state)
        return visits

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(1, 3)
    assert order(1, 2) != order(2, 2)
    assert order(1, 2) != order(2, 1)


def test_random_scan_is_uniform_with_replacement() -> None:
    visits = torch.cat([index for epoch in range(200) for index in epoch_order(50, 50, 3, epoch, scan="random")])
    counts = torch.bincount(visits, minlength=50).double()
    expected = 200.0
    chi_square = ((counts - expected) ** 2 / expected).sum().item()
    assert 20 < chi_square < 90  # 49 degrees of freedom; every row once an epoch would give 0


def test_shuffled_positions_are_uniform() -> None:
    first = torch.stack([next(epoch_order(10, 10, 3, epoch)) for epoch in range(2_000)])
    counts = torch.stack([(first == row).sum(0) for row in range(10)]).double()
    chi_square = ((counts - 200) ** 2 / 200).sum().item()
    assert 40 < chi_square < 140  # 81 degrees of freedom


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: epoch_order(0, 1, 0, 0), "rows must be 1 or more, not 0"),
        (lambda: epoch_order(3, 0, 0, 0), "batch-size must be 1 or more, not 0"),
        (lambda: batches_in_epoch(3, -1), "batch-size must be 1 or more, not -1"),
        (lambda: epoch_order(3, 1, 0, 0, scan="shufle"), "there is no scan 'shufle': did you mean 'shuffle'"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_order_is_refused(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        call()
