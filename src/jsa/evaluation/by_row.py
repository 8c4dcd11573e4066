"""Likelihoods of single rows, and what they come to together."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jaxtyping import Float64
from torch import Tensor

from jsa.errors import NumericalError
from jsa.evaluation.score import Likelihood


@dataclass(frozen=True)
class RowLikelihoods:
    """The negative log-likelihood of each row, in nats; rows of a high one are unusual under the model.

    Attributes:
        nll: -log p(x) of each row, or its estimate.
        effective_sample_size: How many exact posterior samples the importance samples of each row are worth; infinite
            where the likelihood is exact.
        samples: The number of importance samples a row, 0 where the likelihood is exact.
        annealing_steps: The temperatures between q and the posterior, 0 where nothing was annealed.
    """

    nll: Float64[Tensor, " rows"]
    effective_sample_size: Float64[Tensor, " rows"]
    samples: int
    annealing_steps: int = 0

    def __post_init__(self) -> None:
        wrong = (~self.nll.isfinite()).nonzero()
        if len(wrong):
            row = int(wrong[0])
            raise NumericalError(
                f"log p(x) is {-float(self.nll[row])} at row {row} ({len(wrong)} such rows): none of the states drawn "
                "has a positive probability under the model"
            )

    @property
    def mean(self) -> Likelihood:
        """Their mean, with its errors."""
        rows, samples = len(self.nll), self.samples
        # The delta method: the variance of log w-bar is that of w-bar over its squared mean, which is 1/ESS - 1/S. One
        # sample says nothing of its spread, and exact figures have none.
        unknown = float("nan")
        correction = 1.0 if not samples else samples / (samples - 1) if samples > 1 else unknown
        variance = (1 / self.effective_sample_size - (1 / samples if samples else 0)).clamp_min(0) * correction
        return Likelihood(
            nll=float(self.nll.mean()),
            row_error=float(self.nll.std()) / math.sqrt(rows) if rows > 1 else unknown,
            monte_carlo_error=float(variance.sum().sqrt()) / rows,
            upward_bias=0.5 * float(variance.mean()),
            effective_sample_size=float(self.effective_sample_size.mean()),
            lowest_effective_sample_size=float(self.effective_sample_size.min()),
            samples=samples,
            rows=rows,
            annealing_steps=self.annealing_steps,
        )
