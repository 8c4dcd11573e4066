"""Belief networks: their densities by hand, their samples by enumeration."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from helpers.significance import assert_frequencies, assert_mean
from helpers.small_models import Example, bits, categorical, one_layer, randomize, state_numbers, two_layers
from jsa import Batch, BeliefNetwork, LatentSpace, Layer


def prior_probabilities(model: BeliefNetwork) -> torch.Tensor:
    """p(h) of every state, by summing p(x, h) over every x."""
    x = LatentSpace.of(model.observed).enumerate(torch.float64)
    return Example(model, Batch(x, torch.arange(len(x)))).exact.log_joint.exp().sum(1)


@pytest.mark.parametrize("make", [one_layer, two_layers, categorical])
def test_latent_samples_have_the_law_of_the_prior_and_probabilities_sum_to_one(make: Callable[[], Example]) -> None:
    model = make().network
    expected = prior_probabilities(model)
    assert float(expected.sum()) == pytest.approx(1, abs=1e-12)
    assert_frequencies(state_numbers(model, model.sample_latent((50_000,))), expected)


@pytest.mark.parametrize("make", [one_layer, two_layers])
def test_observations_have_the_law_of_the_model(make: Callable[[], Example]) -> None:
    model = make().network
    x = LatentSpace.of(model.observed).enumerate(torch.float64)
    draws = model.observation(model.sample_latent((50_000,))).sample()
    exact = Example(model, Batch(x, torch.arange(len(x)))).exact.log_likelihood.exp()
    numbers = (draws.unsqueeze(1) == x).all(-1).long().argmax(1)
    assert_frequencies(numbers, exact)


def test_three_layers_of_three_kinds() -> None:
    """Each layer is conditioned on its neighbor: on nothing else, and on the right one."""
    latent = LatentSpace.of(Layer("bernoulli", 3), Layer("categorical", 2, classes=3), Layer("gaussian", 2))
    model = randomize(BeliefNetwork(Layer("bernoulli", 4), latent, prior="learned"), seed=0)
    batch = bits(rows=5, width=4)
    posterior = model.posterior(batch)
    h = posterior.sample((2,))
    first, second, third = (h[..., where] for where in latent.slices)
    inference = model.inference[0](batch.x).log_prob(first)
    inference = inference + model.inference[1](first).log_prob(second) + model.inference[2](second).log_prob(third)
    assert torch.allclose(posterior.log_prob(h), inference, atol=1e-12, rtol=0)
    joint = model.prior.log_prob(third) + model.generative[2](third).log_prob(second)
    joint = joint + model.generative[1](second).log_prob(first) + model.generative[0](first).log_prob(batch.x)
    assert torch.allclose(model.log_joint(batch, h), joint, atol=0, rtol=1e-12)
    assert model.sample_latent((7,)).shape == (7, latent.width)


def test_a_learned_prior_is_a_parameter_and_a_fixed_one_travels_with_the_model() -> None:
    model = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("bernoulli", 3)))
    assert "prior_parameters" in dict(one_layer().model.named_parameters())
    assert "prior_parameters" not in dict(model.named_parameters())
    assert model.double().prior_parameters.dtype == torch.float64
    assert torch.allclose(model.prior.mean, torch.full((3,), 0.5, dtype=torch.float64))


def test_gaussian_prior_samples_are_standard() -> None:
    model = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("gaussian", 3))).double()
    draws = model.sample_latent((50_000,))
    assert_mean(draws, 0.0)
    assert_mean(draws.square(), 1.0)


def test_a_belief_network_has_no_context() -> None:
    model = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("bernoulli", 3)))
    with pytest.raises(TypeError, match="no context"):
        model.sample_latent((2,), context=torch.ones(2, 1))
