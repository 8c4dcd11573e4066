"""ARMS: the law of its copula, and the correction for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from helpers.antithetic_noise import recorded_noise, with_noise
from helpers.significance import assert_frequencies, assert_mean
from helpers.small_models import Example, gradients, largest_difference, one_layer, two_layers
from jsa import LatentSpace, Layer
from jsa.distributions import Bernoulli
from jsa.estimators.arms import ARMS, inverse_of_one_less_correlation
from jsa.estimators.disarm import DisARM


@pytest.mark.parametrize("particles", [2, 3, 4, 8])
def test_copula_has_uniform_margins_and_the_stated_pairs(particles: int) -> None:
    like = torch.zeros((), dtype=torch.float64)
    uniforms = ARMS(particles).noise(Layer("bernoulli", 1), 200_000, like).squeeze((1, -1))
    for number in (0, particles - 1):
        assert_frequencies((uniforms[number] * 20).long(), torch.full((20,), 0.05, dtype=torch.float64))
    for p in (0.1, 0.45, 0.9):
        ones = uniforms[[0, particles - 1]] < p
        both_zero = max(0.0, 2 * (1 - p) ** (1 / (particles - 1)) - 1) ** (particles - 1)
        assert_mean((~ones).all(0).double(), both_zero)


@pytest.mark.parametrize("particles", [2, 3, 4, 8])
def test_correction_is_that_of_the_correlation(particles: int) -> None:
    logits = torch.linspace(-6, 6, 101, dtype=torch.float64)
    p = logits.sigmoid()
    both_zero = (2 * (1 - p) ** (1 / (particles - 1)) - 1).clamp_min(0) ** (particles - 1)
    correlation = (2 * p - 1 + both_zero - p**2) / (p * (1 - p))
    found = inverse_of_one_less_correlation(logits, particles)
    assert (found - 1 / (1 - correlation)).abs().max() < 1e-10


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("particles", [2, 3, 8, 50])
def test_correction_tends_to_one_at_both_ends(particles: int, dtype: torch.dtype) -> None:
    far = torch.tensor([-1e4, -745.0, -300.0, -104.0, -88.0, -60.0, -20.0, 20.0, 60.0, 300.0, 1e4], dtype=dtype)
    found = inverse_of_one_less_correlation(far, particles)
    assert (found - 1).abs().max() < 1e-5
    everywhere = inverse_of_one_less_correlation(torch.linspace(-120, 120, 2001, dtype=dtype), particles)
    assert everywhere.min() > 0.5 - 1e-6
    assert everywhere.max() < 1 + 1e-5


@pytest.mark.parametrize("particles", [2, 3, 5])
def test_arms_is_exact_given_the_law_of_pairs(particles: int) -> None:
    # The estimator is linear in products of a signal and a bit of one draw or of two: its expectation needs no more
    # than the law of a pair, which is a product over the bits.
    logits = torch.tensor([-2.0, 0.3, 1.4], dtype=torch.float64, requires_grad=True)
    states = LatentSpace.of(Layer("bernoulli", 3)).enumerate(torch.float64)
    log_inference = Bernoulli(logits).log_prob(states)
    table = torch.randn(8, dtype=torch.float64)
    (expected,) = torch.autograd.grad((log_inference.exp() * (table - log_inference)).sum(), logits)

    p = logits.detach().sigmoid()
    both_zero = (2 * (1 - p) ** (1 / (particles - 1)) - 1).clamp_min(0) ** (particles - 1)
    one_zero = 1 - p - both_zero
    law = torch.stack([both_zero, one_zero, one_zero, 1 - both_zero - 2 * one_zero])
    first, second = states.long().unsqueeze(1), states.long().unsqueeze(0)
    pairs = law[2 * first + second, torch.arange(3)].prod(-1)
    signal = table - log_inference.detach()
    covariance = torch.einsum("s,st,sv->v", signal, pairs, states) - torch.einsum("s,st,tv->v", signal, pairs, states)
    found = covariance * inverse_of_one_less_correlation(logits.detach(), particles)
    assert (found - expected).abs().max() < 1e-12


@pytest.mark.parametrize("make", [one_layer, two_layers])
def test_arms_with_two_particles_is_disarm(make: Callable[[], Example]) -> None:
    example = make()
    noise = recorded_noise(DisARM(), example)
    losses = (with_noise(make(), noise)(example.model, example.batch).loss for make in (ARMS, DisARM))
    found = [gradients(example.model, loss) for loss in losses]
    assert largest_difference(*found) < 1e-12
