"""Belief networks: their densities by hand, their samples by enumeration."""

from __future__ import annotations

import pytest
import torch

from helpers.significance import assert_frequencies, assert_mean
from helpers.small_models import Example, bits, categorical, enumerated, one_layer, randomize, state_numbers, two_layers
from jsa import JSA, Batch, BeliefNetwork, LatentSpace, Layer, Stage


def network_of(example: Example) -> BeliefNetwork:
    assert isinstance(example.model, BeliefNetwork)
    return example.model


def prior_probabilities(model: BeliefNetwork) -> torch.Tensor:
    """p(h) of every state, by summing p(x, h) over every x."""
    x = LatentSpace.of(model.observed).enumerate(torch.float64)
    with torch.no_grad():
        return enumerated(model, Batch(x, torch.arange(len(x)))).log_joint.exp().sum(1)


@pytest.mark.parametrize("make", [one_layer, two_layers, categorical])
def test_joint_probabilities_sum_to_one(make: object) -> None:
    assert callable(make)
    assert float(prior_probabilities(network_of(make())).sum()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("make", [one_layer, two_layers, categorical])
def test_latent_samples_have_the_law_of_the_prior(make: object) -> None:
    assert callable(make)
    model = network_of(make())
    draws = model.sample_latent((50_000,))
    assert_frequencies(state_numbers(model, draws), prior_probabilities(model))


@pytest.mark.parametrize("make", [one_layer, two_layers])
def test_observations_have_the_law_of_the_model(make: object) -> None:
    assert callable(make)
    model = network_of(make())
    x = LatentSpace.of(model.observed).enumerate(torch.float64)
    draws = model.observation(model.sample_latent((50_000,))).sample()
    exact = enumerated(model, Batch(x, torch.arange(len(x)))).log_likelihood.detach().exp()
    numbers = (draws.unsqueeze(1) == x).all(-1).long().argmax(1)
    assert_frequencies(numbers, exact)


def test_joint_is_the_product_of_the_conditionals() -> None:
    example = two_layers()
    model = network_of(example)
    h = model.posterior(example.batch).sample((3,))
    lower, upper = h[..., :2], h[..., 2:]
    expected = (
        model.generative[0](lower).log_prob(example.batch.x)
        + model.generative[1](upper).log_prob(lower)
        + model.prior.log_prob(upper)
    )
    assert torch.allclose(model.log_joint(example.batch, h), expected, atol=1e-12, rtol=0)


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


def test_a_fixed_prior_is_no_parameter_and_travels_with_the_model() -> None:
    model = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("bernoulli", 3)))
    assert "prior_parameters" not in dict(model.named_parameters())
    assert model.double().prior_parameters.dtype == torch.float64
    assert torch.allclose(model.prior.mean, torch.full((3,), 0.5, dtype=torch.float64))


def test_a_learned_prior_is_a_parameter() -> None:
    model = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("bernoulli", 3)), prior="learned")
    assert "prior_parameters" in dict(model.named_parameters())


def test_gaussian_prior_samples_are_standard() -> None:
    model = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("gaussian", 3))).double()
    draws = model.sample_latent((50_000,))
    assert_mean(draws, 0.0)
    assert_mean(draws.square(), 1.0)


def test_a_belief_network_has_no_context() -> None:
    model = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("bernoulli", 3)))
    with pytest.raises(TypeError, match="no context"):
        model.sample_latent((2,), context=torch.ones(2, 1))


def test_gradients_reach_every_parameter(example: Example) -> None:
    estimator = JSA(example.model.latent, rows=3, particles=3, stage=Stage.PERSISTENT)
    estimator(example.model, example.batch).loss.backward()
    for name, parameter in example.model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.norm() > 0, name
