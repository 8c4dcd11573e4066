"""Posteriors whose draws a test chooses."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from jsa.model import Posterior


def script(posterior: Posterior, draws: Callable[[tuple[int, ...]], Tensor]) -> Posterior:
    """Make the posterior draw what the function of the shape returns; probabilities stay as they are."""

    def with_log_prob(shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        h = draws(shape)
        return h, posterior.log_prob(h)

    vars(posterior).update(sample=draws, sample_with_log_prob=with_log_prob)
    return posterior
