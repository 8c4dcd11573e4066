"""Conditional importance sampling: its invariant distribution is the posterior, and it moves as it should."""

from __future__ import annotations

import torch

from helpers.significance import assert_frequencies
from helpers.small_models import Example, repeated, state_numbers
from jsa.kernels import conditional_importance
from jsa.model_calls import posterior_of


def matrix_of(inference: torch.Tensor, log_weights: torch.Tensor, proposals: int) -> torch.Tensor:
    """One move by definition: the state and all tuples of proposals, each candidate in proportion to its weight."""
    numbers = torch.arange(len(inference))
    candidates = torch.cartesian_prod(*[numbers] * (proposals + 1))
    probability = inference[candidates[:, 1:]].prod(1, keepdim=True) * log_weights[candidates].softmax(1)
    matrix = torch.zeros(len(inference), len(inference), dtype=torch.float64)
    starts = candidates[:, :1].expand_as(candidates)
    return matrix.index_put_((starts, candidates), probability, accumulate=True)


def test_the_posterior_is_invariant(example: Example) -> None:
    exact = example.exact
    for posterior, inference, weights in zip(exact.posterior.T, exact.inference.T, exact.log_weights.T, strict=True):
        matrix = matrix_of(inference, weights, proposals=2)
        assert (matrix.sum(1) - 1).abs().max() < 1e-12
        assert (posterior @ matrix - posterior).abs().max() < 1e-12


def test_moves_have_the_law_of_the_definition(example: Example) -> None:
    chains = 2_000
    exact = example.exact
    alike = repeated(example.batch.take(torch.tensor([0])), chains * len(exact.states))
    start = torch.arange(len(exact.states)).repeat_interleave(chains)
    posterior = posterior_of(example.model, alike)
    moved = conditional_importance(example.model, alike, posterior, exact.states[start], proposals=2)
    expected = matrix_of(exact.inference[:, 0], exact.log_weights[:, 0], proposals=2)
    for state, ends in enumerate(state_numbers(example.model, moved.last).split(chains)):
        assert_frequencies(ends, expected[state])
