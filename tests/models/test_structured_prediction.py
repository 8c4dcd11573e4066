"""Conditional models: everything depends on the context of its own row."""

from __future__ import annotations

import pytest
import torch

from helpers.significance import assert_frequencies
from helpers.small_models import Example, conditional, state_numbers
from jsa import Batch, LatentSpace, Layer, StructuredPrediction
from jsa.errors import UsageError


@pytest.fixture
def example() -> Example:
    return conditional()


def prior_probabilities(example: Example, row: int) -> torch.Tensor:
    """p(h) of every state given the context of one row, by summing over every observation."""
    x = LatentSpace.of(Layer("bernoulli", 4)).enumerate(torch.float64)
    assert example.batch.context is not None
    batch = Batch(x, torch.arange(len(x)), example.batch.context[row].expand(len(x), -1))
    return Example(example.model, batch).exact.log_joint.exp().sum(1)


def test_latent_samples_have_the_law_of_the_prior_of_their_context(example: Example) -> None:
    assert isinstance(example.model, StructuredPrediction)
    draws = example.model.sample_latent((20_000,), example.batch.context)
    assert draws.shape == (20_000, 3, 3)
    numbers = state_numbers(example.model, draws)
    for row in range(3):
        expected = prior_probabilities(example, row)
        assert float(expected.sum()) == pytest.approx(1, abs=1e-12)
        assert_frequencies(numbers[:, row], expected)


def test_rows_do_not_see_the_context_of_others(example: Example) -> None:
    rows = torch.tensor([2, 0])
    h = example.model.posterior(example.batch).sample((4,))
    some = example.batch.take(rows)
    whole = example.model.log_joint(example.batch, h)
    assert torch.allclose(example.model.log_joint(some, h[:, rows]), whole[:, rows], atol=1e-12, rtol=0)
    inferred = example.model.posterior(example.batch).log_prob(h)
    assert torch.allclose(example.model.posterior(some).log_prob(h[:, rows]), inferred[:, rows], atol=1e-12, rtol=0)


def test_a_context_is_needed(example: Example) -> None:
    assert isinstance(example.model, StructuredPrediction)
    without = Batch(example.batch.x, example.batch.index)
    h = torch.zeros(3, 3, dtype=torch.float64)
    for call in (
        lambda: example.model.posterior(without),
        lambda: example.model.log_joint(without, h),
        lambda: example.model.sample_latent((2,)),
        lambda: example.model.observation(h),
    ):
        with pytest.raises(UsageError, match="needs a context"):
            call()


def test_one_stochastic_layer_is_taken() -> None:
    latent = LatentSpace.of(Layer("bernoulli", 2), Layer("bernoulli", 2))
    with pytest.raises(UsageError, match="one stochastic layer, not 2"):
        StructuredPrediction(Layer("bernoulli", 4), 2, latent)
