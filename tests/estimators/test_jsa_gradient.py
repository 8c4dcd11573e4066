"""The gradient of JSA: exact when the chains follow the posterior, biased in stage I, and known-wrong twins fail."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import jsa.importance
from helpers.gradient_checks import assert_biased, assert_unbiased, gradient_draws, largest_score, limit
from helpers.path_laws import (
    Rule,
    Weighing,
    expected_occupancy,
    share_of_moves,
    share_without_repeats,
)
from helpers.small_models import Enumerated, Example, Gradients, enumerated, exact_gradients, gradients, repeated
from jsa import JSA, Stage
from jsa.estimators.weighted import weighted_loss
from jsa.experiments.worker import stale_weight_path
from jsa.importance import independence_path
from jsa.model_calls import evaluate, posterior_of

COPIES = 2_000
REPETITIONS = 40
"""Of a batch of three rows: 240,000 chains in all."""


def largest_difference(found: Gradients, expected: Gradients) -> float:
    return max(float((found[name] - expected[name]).abs().max()) for name in expected)


def expected_gradients(
    example: Example, start: Tensor, moves: int, rule: Rule = independence_path, weighing: Weighing = share_of_moves
) -> Gradients:
    """The expectation of JSA's gradient, over starts with these probabilities, all proposals and all uniforms."""
    with torch.no_grad():
        exact = enumerated(example.model, example.batch)
    weights = [
        expected_occupancy(rule, weighing, start[:, row], exact.inference[:, row], exact.log_weights[:, row], moves)
        for row in range(len(example.batch))
    ]
    states = exact.states.unsqueeze(1).expand(-1, len(example.batch), -1)
    posterior = posterior_of(example.model, example.batch)
    evaluated = evaluate(example.model, example.batch, posterior, states)
    loss = weighted_loss(example.model, example.batch, evaluated, torch.stack(weights, dim=1)).loss
    return gradients(example.model, loss)


def enumerated_without_gradient(example: Example) -> Enumerated:
    with torch.no_grad():
        return enumerated(example.model, example.batch)


@pytest.mark.parametrize("moves", [1, 2, 3])
def test_expected_gradient_is_exact(example: Example, moves: int) -> None:
    start = enumerated_without_gradient(example).posterior
    expected = exact_gradients(example.model, example.batch)
    assert largest_difference(expected_gradients(example, start, moves), expected) < 1e-12


@pytest.mark.parametrize(
    ("rule", "weighing"),
    [(stale_weight_path, share_of_moves), (independence_path, share_without_repeats)],
    ids=["stale weights", "repeats not counted"],
)
def test_expected_gradient_of_wrong_twins_is_not(example: Example, rule: Rule, weighing: Weighing) -> None:
    # With two moves counting the repeats and not counting them are the same: three are needed to tell.
    start = enumerated_without_gradient(example).posterior
    expected = exact_gradients(example.model, example.batch)
    assert largest_difference(expected_gradients(example, start, 3, rule, weighing), expected) > 1e-3


def test_expected_gradient_from_fresh_starts_is_not(example: Example) -> None:
    start = enumerated_without_gradient(example).inference
    expected = exact_gradients(example.model, example.batch)
    bias = [largest_difference(expected_gradients(example, start, moves), expected) for moves in (1, 2, 3)]
    assert bias[0] > 0.05
    assert bias[0] > bias[1] > bias[2] > 1e-3


@pytest.mark.parametrize("particles", [1, 3])
def test_stage_two_is_unbiased_from_the_posterior(example: Example, particles: int) -> None:
    batch = repeated(example.batch, COPIES)
    estimator = JSA(example.model.latent, len(batch), particles, Stage.PERSISTENT)
    exact = enumerated_without_gradient(example)
    draws = gradient_draws(estimator, example.model, batch, REPETITIONS, exact)
    assert_unbiased(draws, exact_gradients(example.model, example.batch))


def test_stage_one_is_biased_by_what_it_should_be(example: Example) -> None:
    batch = repeated(example.batch, COPIES)
    estimator = JSA(example.model.latent, len(batch), particles=2, stage=Stage.FRESH)
    draws = gradient_draws(estimator, example.model, batch, REPETITIONS)
    assert_biased(draws, exact_gradients(example.model, example.batch))
    start = enumerated_without_gradient(example).inference
    assert largest_score(draws, expected_gradients(example, start, moves=2)) < limit(draws)


def test_stale_weights_are_seen(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsa.importance, "independence_path", stale_weight_path)
    batch = repeated(example.batch, COPIES)
    estimator = JSA(example.model.latent, len(batch), particles=3, stage=Stage.PERSISTENT)
    exact = enumerated_without_gradient(example)
    draws = gradient_draws(estimator, example.model, batch, REPETITIONS, exact)
    assert_biased(draws, exact_gradients(example.model, example.batch))
