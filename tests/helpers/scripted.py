"""Posteriors whose draws a test chooses."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from jsa import LayeredPosterior


def script(posterior: LayeredPosterior, draws: Callable[[tuple[int, ...]], Tensor]) -> None:
    """Makes the posterior draw what the function of the shape gives; probabilities stay as they are."""

    def with_log_prob(shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        h = draws(shape)
        return h, posterior.log_prob(h)

    posterior.sample = draws  # type: ignore[method-assign, assignment]
    posterior.sample_with_log_prob = with_log_prob  # type: ignore[method-assign, assignment]
