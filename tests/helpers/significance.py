"""Assertions about random code, with the rate at which they fail although the code is right.

The seeds are fixed, so that a test either passes always or never; the rate says how likely it is that a change which
alters the draws and nothing else makes one of these assertions fail. It is small, because there are many of them.
What makes a test sharp is not the rate but the number of draws: state that where it matters.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats
from torch import Tensor

FAILURE_RATE = 1e-6
"""The probability that one assertion fails by chance, all its comparisons together (Bonferroni)."""


def threshold(comparisons: int, degrees_of_freedom: float = float("inf")) -> float:
    """The size of a standardized deviation that is exceeded by one of so many comparisons at the failure rate."""
    return float(stats.t.isf(FAILURE_RATE / (2 * comparisons), degrees_of_freedom))


def standard_scores(draws: Tensor, expected: Tensor | float) -> Tensor:
    """The deviation of the mean over the first dimension from what is expected, in standard errors."""
    error = draws.std(0) / len(draws) ** 0.5
    # A quantity that does not vary must be right to rounding.
    return (draws.mean(0) - expected) / error.clamp_min(1e-12)


def assert_mean(draws: Tensor, expected: Tensor | float) -> None:
    """That independent draws, along the first dimension, have this expectation."""
    scores = standard_scores(draws, expected)
    limit = threshold(scores.numel(), len(draws) - 1)
    worst = float(scores.abs().max())
    assert worst < limit, f"a mean is {worst:.1f} standard errors off; the limit is {limit:.1f}"


def assert_frequencies(draws: Tensor, probabilities: Tensor) -> None:
    """That independent draws of the numbers 0, 1, ... have these probabilities."""
    value = frequency_p_value(draws, probabilities)
    assert value > FAILURE_RATE, f"frequencies this far off have probability {value:.1g}"


def frequency_p_value(draws: Tensor, probabilities: Tensor) -> float:
    """How probable it is to see a frequency at least this far off, if the draws have these probabilities.

    Exact binomial tails, however rare a state is: the chi-square law is not to be trusted at this failure rate.
    """
    counts = torch.bincount(draws.flatten(), minlength=len(probabilities)).numpy()
    # Sums of probabilities may pass one by rounding.
    law = stats.binom(draws.numel(), probabilities.clamp(0, 1).numpy())
    tails = 2 * np.minimum(law.cdf(counts), law.sf(counts - 1))
    return float(min(1, len(counts) * tails.min()))
