"""The draws of the evaluation belong to a row and a sample number, however the work is cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from helpers.significance import assert_mean
from helpers.small_models import Example, RowsInMemory, one_layer, torch_posterior, two_layers
from jsa import Batch, likelihood
from jsa.evaluation.draws import BLOCK, RowDraws, _mixed, device_uniforms, fast_uniforms
from jsa.model_calls import posterior_of
from jsa.testing.gradients import repeated

EXAMPLES: dict[str, Callable[[], Example]] = {
    "layered": two_layers,
    "sampling only": torch_posterior,  # a posterior that has nothing but sample and log_prob
}
ROWS, SAMPLES = 11, 130


@pytest.fixture(params=EXAMPLES)
def example(request: pytest.FixtureRequest) -> Example:
    """Eleven rows, a number that no chunk size divides."""
    small = EXAMPLES[request.param]()
    return replace(small, batch=repeated(small.batch, 4).take(torch.arange(ROWS)))


@pytest.mark.parametrize("states", [1, 100, 2 * SAMPLES, 4 * SAMPLES, ROWS * SAMPLES])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-6), (torch.float32, 1e-3)])
def test_chunk_sizes_change_the_last_digits_only(
    example: Example, states: int, dtype: torch.dtype, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = example.to(dtype)
    data = RowsInMemory(example.batch)
    whole = likelihood(example.model, data, SAMPLES)
    monkeypatch.setattr("jsa.evaluation.likelihood.states_in_chunk", lambda rows: states)
    cut = likelihood(example.model, data, SAMPLES)
    assert cut.nll == pytest.approx(whole.nll, abs=tolerance)
    assert cut.effective_sample_size == pytest.approx(whole.effective_sample_size, rel=tolerance)


def test_it_is_equal_bit_for_bit_whatever_the_global_generator_which_stays_as_it_is(example: Example) -> None:
    data = RowsInMemory(example.batch)
    before = torch.get_rng_state()
    first = likelihood(example.model, data, SAMPLES)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    assert likelihood(example.model, data, SAMPLES) == first


def draws(example: Example, batch: Batch, seed: int = 0, first: int = 0, count: int = 2) -> torch.Tensor:
    posterior = posterior_of(example.model, batch)
    h, log_inference = RowDraws(example.model, batch, posterior, seed).blocks(first, count)
    assert torch.allclose(log_inference, posterior.log_prob(h), atol=1e-6)
    return h


@torch.no_grad()
def test_a_row_has_its_draws_in_any_company(example: Example) -> None:
    all_rows = draws(example, example.batch)
    rows = torch.tensor([7, 2])
    assert torch.equal(draws(example, example.batch.take(rows)), all_rows[:, rows])


@torch.no_grad()
def test_a_block_has_its_draws_in_any_company(example: Example) -> None:
    three = draws(example, example.batch, count=3)
    assert torch.equal(draws(example, example.batch, first=1, count=2), three[BLOCK:])


@torch.no_grad()
def test_seeds_rows_and_blocks_have_draws_of_their_own(example: Example) -> None:
    first = draws(example, example.batch, count=3)
    blocks = first.unflatten(0, (3, BLOCK))
    assert not torch.equal(draws(example, example.batch, seed=1, count=3), first)
    assert not torch.equal(blocks[0], blocks[1])
    # Rows 0 and 3 are the same row of data under two numbers.
    assert torch.equal(example.batch.x[0], example.batch.x[3])
    assert not torch.equal(first[:, 0], first[:, 3])


@torch.no_grad()
def test_both_precisions_see_the_same_draws() -> None:
    double, single = one_layer(), one_layer().to(torch.float32)
    assert torch.equal(draws(double, double.batch).float(), draws(single, single.batch))


@torch.no_grad()
def test_draws_of_neighbors_are_independent() -> None:
    """Generators with neighboring seeds: no correlation between rows, blocks or seeds."""
    example = one_layer()
    batch = repeated(example.batch.take(torch.zeros(1, dtype=torch.int64)), 2_000)
    mean = replace(example, batch=batch).layers.first.mean
    h = draws(example, batch, count=2) - mean
    blocks = h.unflatten(0, (2, BLOCK))
    assert_mean((h[:, 1:] * h[:, :-1]).mean(0), 0.0)
    assert_mean((blocks[0] * blocks[1]).mean(0), 0.0)
    assert_mean((h * (draws(example, batch, seed=1, count=2) - mean)).mean(0), 0.0)


@pytest.mark.parametrize("fill", [fast_uniforms, device_uniforms])
@pytest.mark.parametrize("variables", [1, 7, 8])
def test_uniforms_of_a_block_do_not_depend_on_what_is_drawn_with_it(fill: Callable[..., None], variables: int) -> None:
    whole, part = torch.empty(4 * BLOCK, variables), torch.empty(2 * BLOCK, variables)
    fill(whole, 3, 5, 0)
    fill(part, 3, 5, 1)
    assert torch.equal(part, whole[BLOCK : 3 * BLOCK])
    # Into a column of a larger tensor, as for several rows at once.
    columns = torch.empty(4 * BLOCK, 3, variables)
    fill(columns[:, 1], 3, 5, 0)
    assert torch.equal(columns[:, 1], whole)


def test_fast_uniforms_are_uniform() -> None:
    uniforms = torch.empty(2_000 * BLOCK, 4)
    fast_uniforms(uniforms, 0, 0, 0)
    assert 0 <= uniforms.min() < 2e-5
    assert 1 - 2e-5 < uniforms.max() < 1
    assert torch.equal(uniforms * 2**24, (uniforms * 2**24).round())
    for power in (1, 2, 3):
        assert_mean(uniforms.double().flatten() ** power, 1 / (power + 1))
    # Both halves of a word, and words that follow each other.
    flat = uniforms.double().flatten() - 0.5
    assert_mean(flat[::2] * flat[1::2], 0.0)
    assert_mean(flat[1:-1:2] * flat[2::2], 0.0)


def test_seeds_of_one_evaluation_do_not_collide() -> None:
    for seed in (0, 1, 12345):
        seeds = {_mixed(seed, row, block) for row in range(2_000) for block in range(20)}
        assert len(seeds) == 40_000
        assert max(seeds) < 2**32
