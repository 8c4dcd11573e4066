"""Whether an estimator's gradient is unbiased: a z-test in every parameter, with its sharpness stated."""

from __future__ import annotations

import torch
from torch import Tensor

from helpers.significance import standard_scores, threshold
from helpers.small_models import Enumerated, Example, Gradients, gradients, repeated
from jsa import Batch, Estimator, LatentVariableModel

LARGEST_RELATIVE_ERROR = 0.01
"""The standard error of a parameter block may be this share of the exact gradient's norm: else nothing is tested."""

SMALLEST_NORM = 0.05
"""The exact gradient's norm in every parameter block is at least this: else the relative error says little."""


def gradient_draws(
    estimator: Estimator, model: LatentVariableModel, batch: Batch, repetitions: int, exact: Enumerated | None = None
) -> Gradients:
    """Independent gradients of the same batch, along a new first dimension.

    Args:
        estimator: The estimator itself, not a rewriting of it.
        model: A small model.
        batch: Many copies of a few rows, so that one gradient is already a mean over many chains.
        repetitions: How many gradients.
        exact: Where it is given, the chains are drawn from the exact posterior of the few rows before each gradient.
    """
    draws: dict[str, list[Tensor]] = {name: [] for name, _ in model.named_parameters()}
    for _ in range(repetitions):
        if exact is not None:
            place_chains(estimator, exact, len(batch))
        for name, gradient in gradients(model, estimator(model, batch).loss).items():
            draws[name].append(gradient)
    return {name: torch.stack(values) for name, values in draws.items()}


def draws_of(estimator: Estimator, example: Example, copies: int = 2_000, repetitions: int = 40) -> Gradients:
    """Gradients of so many copies of the rows of an example."""
    return gradient_draws(estimator, example.model, repeated(example.batch, copies), repetitions)


def place_chains(estimator: Estimator, exact: Enumerated, rows: int) -> None:
    """Puts the chains of the repeated rows where the exact posterior wants them."""
    copies = rows // exact.posterior.shape[1]
    numbers = torch.multinomial(exact.posterior.T, copies, replacement=True)
    everywhere = torch.ones(rows, dtype=torch.bool)
    assert estimator.chains is not None
    estimator.chains.write(torch.arange(rows), exact.states[numbers.T.flatten()], everywhere)


def largest_score(draws: Gradients, expected: Gradients) -> float:
    """The largest deviation of a mean gradient from the expected one, in standard errors."""
    scores = [standard_scores(draws[name], gradient).abs().max() for name, gradient in expected.items()]
    return float(torch.stack(scores).max())


def limit(draws: Gradients) -> float:
    """The score that an unbiased estimator exceeds at the failure rate."""
    repetitions = len(next(iter(draws.values())))
    comparisons = sum(gradient[0].numel() for gradient in draws.values())
    return threshold(comparisons, repetitions - 1)


def assert_unbiased(draws: Gradients, expected: Gradients) -> None:
    """That the mean gradient is the expected one in every parameter, and that the test is sharp."""
    assert_sharp(draws, expected)
    score = largest_score(draws, expected)
    assert score < limit(draws), f"a gradient is {score:.1f} standard errors off"


def assert_biased(draws: Gradients, expected: Gradients) -> None:
    """That the same test refuses the gradient."""
    assert_sharp(draws, expected)
    score = largest_score(draws, expected)
    assert score > limit(draws), f"the bias was not seen: the largest deviation is {score:.1f} standard errors"


def relative_error(draws: Gradients, expected: Gradients) -> float:
    """The standard error of the mean gradient over the exact gradient's norm, in the worst parameter block."""
    errors = [
        (draws[name].var(0) / len(draws[name])).sum().sqrt() / gradient.norm() for name, gradient in expected.items()
    ]
    return float(torch.stack(errors).max())


def assert_sharp(draws: Gradients, expected: Gradients) -> None:
    for name, gradient in expected.items():
        assert gradient.norm() >= SMALLEST_NORM, name
    error = relative_error(draws, expected)
    assert error <= LARGEST_RELATIVE_ERROR, f"the test is blunt: the standard error is {error:.1%} of a gradient"
