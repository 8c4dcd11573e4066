"""The expected gradient of JSA: exact when the chains follow the posterior, biased in stage I; wrong twins fail."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from helpers.gradient_checks import assert_biased
from helpers.path_laws import Rule, Weighing, expected_occupancy, share_of_moves, share_without_repeats
from helpers.small_models import Example, Gradients, exact_gradients, gradients, largest_difference
from jsa import JSA, Stage
from jsa.estimators.weighted import weighted_loss
from jsa.experiments.worker import stale_weight_path
from jsa.importance import independence_path
from jsa.model_calls import evaluate, posterior_of
from jsa.testing.gradients import compared, drawn_gradients, repeated


def expected_gradients(
    example: Example, start: Tensor, moves: int, rule: Rule = independence_path, weighing: Weighing = share_of_moves
) -> Gradients:
    """The expectation of JSA's gradient, over starts with these probabilities, all proposals and all uniforms."""
    exact = example.exact
    weights = [
        expected_occupancy(rule, weighing, start[:, row], exact.inference[:, row], exact.log_weights[:, row], moves)
        for row in range(len(example.batch))
    ]
    states = exact.states.unsqueeze(1).expand(-1, len(example.batch), -1)
    posterior = posterior_of(example.model, example.batch)
    evaluated = evaluate(example.model, example.batch, posterior, states)
    loss = weighted_loss(example.model, example.batch, evaluated, torch.stack(weights, dim=1)).loss
    return gradients(example.model, loss)


@pytest.mark.parametrize("moves", [1, 2, 3])
def test_expected_gradient_is_exact(example: Example, moves: int) -> None:
    expected = exact_gradients(example.model, example.batch)
    assert largest_difference(expected_gradients(example, example.exact.posterior, moves), expected) < 1e-12


@pytest.mark.parametrize(
    ("rule", "weighing"),
    [(stale_weight_path, share_of_moves), (independence_path, share_without_repeats)],
    ids=["stale weights", "repeats not counted"],
)
def test_expected_gradient_of_wrong_twins_is_not(example: Example, rule: Rule, weighing: Weighing) -> None:
    # With two moves counting the repeats and not counting them are the same: three are needed to tell.
    start = example.exact.posterior
    expected = exact_gradients(example.model, example.batch)
    assert largest_difference(expected_gradients(example, start, 3, rule, weighing), expected) > 1e-3


def test_expected_gradient_from_fresh_starts_is_not(example: Example) -> None:
    start = example.exact.inference
    expected = exact_gradients(example.model, example.batch)
    bias = [largest_difference(expected_gradients(example, start, moves), expected) for moves in (1, 2, 3)]
    assert bias[0] > 0.05
    assert bias[0] > bias[1] > bias[2] > 1e-3


def test_stage_one_is_biased_by_what_it_should_be(example: Example) -> None:
    batch = repeated(example.batch, 2_000)
    estimator = JSA(example.model.latent, len(batch), particles=2, stage=Stage.FRESH)
    draws = drawn_gradients(estimator, example.model, example.batch, 2_000, 40, at_posterior=False)
    assert_biased(draws, exact_gradients(example.model, example.batch))
    assert compared(draws, expected_gradients(example, example.exact.inference, moves=2)).agrees
