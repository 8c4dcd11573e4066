"""What chains on disk cost follows the rows touched, not the rows held."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from jsa import ChainCache, LatentSpace, Layer
from jsa.chains.database import FILE_NAME

SPACE = LatentSpace.of(Layer("bernoulli", 200))
FEW, MANY = 2_000, 1_000_000
# Noise is a matter of some factors of two. A cost in proportion to the rows would be a factor of five hundred.
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


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The chains of few rows, and of many."""
    made = [tmp_path_factory.mktemp(str(rows)) for rows in (FEW, MANY)]
    for folder, rows in zip(made, (FEW, MANY), strict=True):
        ChainCache(SPACE, rows, folder)
    return made


def opened(folders: list[Path]) -> list[ChainCache]:
    return [ChainCache(SPACE, rows, folder) for folder, rows in zip(folders, (FEW, MANY), strict=True)]


def stepped_and_committed(cache: ChainCache) -> float:
    step(cache)
    return processor_seconds(cache.commit)


def test_opening_costs_the_same_for_more_rows(folders: list[Path]) -> None:
    few, many = (
        statistics.median(processor_seconds(functools.partial(ChainCache, SPACE, rows, folder)) for _ in range(9))
        for folder, rows in zip(folders, (FEW, MANY), strict=True)
    )
    assert many < RATIO * few


def test_a_step_costs_the_same_for_more_rows(folders: list[Path]) -> None:
    few, many = (
        statistics.median(processor_seconds(functools.partial(step, cache)) for _ in range(30))
        for cache in opened(folders)
    )
    assert many < RATIO * few


def test_a_checkpoint_costs_the_same_for_more_rows(folders: list[Path]) -> None:
    few, many = (statistics.median(stepped_and_committed(cache) for _ in range(5)) for cache in opened(folders))
    assert many < RATIO * few


def test_a_row_takes_little_more_than_its_record(folders: list[Path]) -> None:
    (cache,) = opened(folders)[1:]
    size = (folders[1] / FILE_NAME).stat().st_size / MANY
    assert cache.bytes_per_row < size < 1.4 * cache.bytes_per_row
