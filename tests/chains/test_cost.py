"""What memory-mapped chains cost follows the rows touched, not the rows held."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from jsa import ChainCache, LatentSpace, Layer

SPACE = LatentSpace.of(Layer("bernoulli", 200))
FEW, MANY = 100_000, 100_000_000
# Noise is a matter of some factors of two. A cost in proportion to the rows would be a factor of a thousand.
RATIO = 20


def processor_seconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def step(cache: ChainCache) -> None:
    rows = torch.randint(cache.rows, (100,))
    cache.read(rows)
    cache.write(rows, torch.ones(100, 200), torch.ones(100, dtype=torch.bool))
    cache.age(rows)


@pytest.fixture
def caches(tmp_path: Path) -> list[ChainCache]:
    """A cache of few rows and one of a thousand times as many."""
    made = [ChainCache(SPACE, rows, tmp_path / str(rows)) for rows in (FEW, MANY)]
    for cache in made:
        step(cache)
        cache.commit()
    return made


def test_a_step_costs_the_same_for_more_rows(caches: list[ChainCache]) -> None:
    few, many = (
        statistics.median(processor_seconds(functools.partial(step, cache)) for _ in range(30)) for cache in caches
    )
    assert many < RATIO * few


def test_a_checkpoint_costs_the_same_for_more_rows(caches: list[ChainCache]) -> None:
    costs = []
    for cache in caches:
        times = []
        for _ in range(5):
            step(cache)
            times.append(processor_seconds(cache.commit))
        costs.append(statistics.median(times))
    assert costs[1] < RATIO * costs[0]


def test_many_rows_take_no_more_room_than_those_touched(caches: list[ChainCache], tmp_path: Path) -> None:
    file = (tmp_path / str(MANY) / "chains.bin").stat()
    assert file.st_size == MANY * caches[1].bytes_per_row
    assert file.st_blocks * 512 < file.st_size / 1000
    assert 0 < caches[1].visited_rows <= 100
