"""Chains that move to another cache, and those in files that cannot be copied."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from helpers.latent_spaces import random_states
from jsa import JSA, ChainCache, LatentSpace, Layer
from jsa.errors import UsageError

SPACE = LatentSpace.of(Layer("bernoulli", 9), Layer("categorical", 2, classes=3))
EVEN = torch.arange(0, 10, 2)


def made(rows: int, folder: Path | None, latent: LatentSpace = SPACE) -> ChainCache:
    return ChainCache(latent, rows, folder)


def visited(folder: Path | None) -> ChainCache:
    """Ten rows, of which the even ones have chains, and one of these moved later than the others."""
    cache = made(10, folder)
    for seed, moved in enumerate(([True] * 5, [False, True, False, False, False])):
        cache.write(EVEN, random_states(SPACE, (5,), seed), torch.tensor(moved))
    return cache


@pytest.mark.parametrize("old_in_files", [False, True])
@pytest.mark.parametrize("new_in_files", [False, True])
@pytest.mark.parametrize("rows", [10, 25])
def test_chains_are_adopted(tmp_path: Path, old_in_files: bool, new_in_files: bool, rows: int) -> None:
    old = visited(tmp_path / "old" if old_in_files else None)
    new = made(rows, tmp_path / "new" if new_in_files else None)
    new.adopt(old)
    numbers = torch.arange(10)
    for one, other in zip(old.read(numbers), new.read(numbers), strict=True):
        assert torch.equal(one, other)
    assert new.visits == old.visits
    assert not new.read(torch.arange(10, rows))[1].any()
    # A pass is as many visits as there are rows.
    assert torch.allclose(old.age(EVEN) * 10, new.age(EVEN) * rows)
    assert old.age(EVEN).unique().numel() == 2


def test_adopted_chains_go_on(tmp_path: Path) -> None:
    new = made(25, tmp_path)
    new.adopt(visited(None))
    new.write(torch.tensor([24]), random_states(SPACE, (1,), 3), torch.tensor([True]))
    new.commit()
    del new
    again = made(25, tmp_path)
    assert again.visited_rows == 6
    assert torch.equal(again.read(EVEN)[0], visited(None).read(EVEN)[0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: made(9, None),
        lambda: made(10, None, LatentSpace.of(Layer("bernoulli", 9))),
        lambda: visited(None),
    ],
    ids=["fewer-rows", "another-space", "not-new"],
)
def test_other_caches_do_not_adopt(make: Callable[[], ChainCache]) -> None:
    cache = make()
    with pytest.raises(UsageError, match=r"make one for 9 bernoulli variables, 2 .* of 3 classes with 10 rows or more"):
        cache.adopt(visited(None))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, pickle.dumps])
def test_chains_in_files_are_not_copied(tmp_path: Path, duplicate: Callable[[object], object]) -> None:
    with pytest.raises(UsageError, match="chains on disk cannot be copied or pickled"):
        duplicate(JSA(SPACE, rows=10, cache_folder=tmp_path).chains)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_chains_in_memory_are_copied(duplicate: Callable[[ChainCache], ChainCache]) -> None:
    cache = visited(None)
    other = duplicate(cache)
    other.forget(EVEN)
    assert other.visited_rows == 0
    assert cache.visited_rows == 5
    assert torch.equal(duplicate(cache).read(EVEN)[0], cache.read(EVEN)[0])
