"""Chains that stand still are found and named, and can be started anew."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from helpers.scripted import script
from helpers.small_models import one_layer
from jsa import JSA, Batch, ChainCache, LatentSpace, Layer, LayeredPosterior, Stage
from jsa.chains import cache as cache_module
from jsa.chains import freezing, frozen_chains

SPACE = LatentSpace.of(Layer("bernoulli", 3))
HUGE = 1e3


def visit(cache: ChainCache, moved: Tensor, passes: int) -> None:
    for _ in range(passes):
        cache.write(torch.arange(cache.rows), torch.ones(cache.rows, 3), moved)


def test_a_chain_with_a_huge_weight_is_named_and_freed(folder: Path | None) -> None:
    """One state of row 1 has a weight of e**1000 and is never proposed, so the chain that stands there stays there."""
    example = one_layer()
    estimator = JSA(example.model.latent, rows=3, stage=Stage.PERSISTENT, cache_folder=folder)
    trap = torch.ones(3, dtype=torch.float64)
    log_joint, posterior = example.network.log_joint, example.network.posterior

    def with_huge_weight(batch: Batch, h: Tensor) -> Tensor:
        return log_joint(batch, h) + HUGE * ((h == trap).all(-1) & (batch.index == 1))

    def never_there(batch: Batch) -> LayeredPosterior:
        found = posterior(batch)

        def draw(shape: tuple[int, ...]) -> Tensor:
            h, _ = found.from_uniforms(torch.rand(*shape, len(batch), 3, dtype=torch.float64))
            return h * torch.tensor([1.0, 1.0, 0.0])

        script(found, draw)
        return found

    vars(example.model).update(log_joint=with_huge_weight, posterior=never_there)
    estimator.chains.write(torch.tensor([1]), trap.unsqueeze(0), torch.tensor([True]))
    for _ in range(30):
        diagnostics = estimator(example.model, example.batch).diagnostics
    assert diagnostics["frozen_share"] == pytest.approx(1 / 3)
    frozen = frozen_chains(estimator.chains)
    assert (frozen.rows, frozen.visited) == (3, 3)
    assert frozen.shares == {1: pytest.approx(1 / 3), 5: pytest.approx(1 / 3), 20: pytest.approx(1 / 3)}
    assert frozen.oldest[0] == (1, 30.0)
    assert frozen.warning is not None
    assert frozen.warning.startswith("33% of the chains have not moved for more than 20 passes (row 1 for 30)")
    assert "docs/how-to/chain-health.md" in frozen.warning

    estimator.chains.forget(torch.tensor([row for row, age in frozen.oldest if age > 20]))
    for _ in range(30):
        estimator(example.model, example.batch)
    freed = frozen_chains(estimator.chains)
    assert freed.warning is None
    assert freed.shares[20] == 0


def test_chains_that_move_are_no_cause_for_a_warning(folder: Path | None) -> None:
    cache = ChainCache(SPACE, 10, folder)
    visit(cache, torch.ones(10, dtype=torch.bool), 50)
    frozen = frozen_chains(cache)
    assert frozen.warning is None
    assert frozen.shares == {1: 0, 5: 0, 20: 0}


@pytest.mark.parametrize(
    ("still", "passes", "warned"), [(1, 25, False), (2, 25, True), (5, 10, False), (6, 10, True), (10, 5, False)]
)
def test_many_chains_that_stand_still_are_a_cause(still: int, passes: int, warned: bool) -> None:
    cache = ChainCache(SPACE, 10)
    visit(cache, torch.ones(10, dtype=torch.bool), 1)
    visit(cache, torch.arange(10) >= still, passes)
    frozen = frozen_chains(cache)
    assert (frozen.warning is not None) == warned
    assert frozen.shares[1] == still / 10


def test_the_oldest_are_named_in_order(folder: Path | None) -> None:
    cache = ChainCache(SPACE, 6, folder)
    visit(cache, torch.ones(6, dtype=torch.bool), 1)
    for last in (3, 1, 4):
        cache.write(torch.tensor([row for row in range(6) if row != last]), torch.ones(5, 3), torch.ones(5) > 0)
        cache.commit()
    cache.write(torch.tensor([0]), torch.ones(1, 3), torch.tensor([True]))
    oldest = frozen_chains(cache, oldest=3).oldest
    ages = cache.age(torch.arange(6))
    assert [row for row, _ in oldest] == ages.sort(descending=True, stable=True).indices[:3].tolist()
    assert [age for _, age in oldest] == ages.sort(descending=True).values[:3].tolist()


@pytest.mark.parametrize(("rows", "passes", "warned"), [(10, 5, True), (10, 1, False), (60, 5, False)])
def test_rows_that_are_numbered_by_their_batch_are_a_cause(rows: int, passes: int, warned: bool) -> None:
    cache = ChainCache(SPACE, rows=100)
    for _ in range(passes * 100 // rows):
        cache.write(torch.arange(rows), torch.ones(rows, SPACE.width), moved=torch.ones(rows, dtype=torch.bool))
    warning = frozen_chains(cache).warning
    assert (warning is not None and "numbers of its rows in the whole data" in warning) == warned


def test_a_process_visits_its_share_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cache_module, freezing):
        monkeypatch.setattr(module, "processes", lambda: (0, 4))
    cache = ChainCache(SPACE, rows=100)
    for _ in range(5):
        cache.write(torch.arange(0, 100, 4), torch.ones(25, SPACE.width), moved=torch.ones(25, dtype=torch.bool))
    found = frozen_chains(cache)
    assert (found.rows, found.visited, found.visits) == (25, 25, 125)
    assert found.warning is None
    # Ages count the passes of all: the other rows of a pass are visited elsewhere.
    assert cache.age(torch.tensor([0])).tolist() == [0]
    assert cache.passes == 5


def test_a_new_cache_has_no_frozen_chains(folder: Path | None) -> None:
    frozen = frozen_chains(ChainCache(SPACE, 4, folder))
    assert (frozen.visited, frozen.oldest, frozen.warning) == (0, (), None)


@torch.no_grad()
def test_a_latent_space_with_one_possible_state() -> None:
    """q gives a single state: its chain accepts itself, so it is never frozen, and the gradient is finite."""
    example = one_layer()
    *_, weight, bias = example.model.get_submodule("inference.0").parameters()
    weight.zero_()
    bias.fill_(1e4)
    estimator = JSA(example.model.latent, rows=3, stage=Stage.PERSISTENT)
    for _ in range(30):
        with torch.enable_grad():
            estimate = estimator(example.model, example.batch)
            estimate.loss.backward()
    assert estimate.diagnostics["acceptance"] == 1
    assert estimator.chains.read(torch.arange(3))[0].tolist() == [[1.0] * 3] * 3
    assert frozen_chains(estimator.chains).warning is None
    gradients = [parameter.grad for parameter in example.model.parameters()]
    assert all(gradient is not None and bool(gradient.isfinite().all()) for gradient in gradients)
