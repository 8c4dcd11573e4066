"""What evaluations come to: a likelihood, a variance. Nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Likelihood:
    """An estimate of the mean negative log-likelihood a row, in nats, with what is needed to judge it.

    Attributes:
        nll: The estimate. By Jensen's inequality it is biased upward.
        row_error: Its standard error as an estimate for the population: the spread over rows.
        monte_carlo_error: Its standard error as an estimate for these rows: the noise of the importance samples.
        upward_bias: The leading term of the bias, half the relative variance of the mean weight. It is trustworthy
            only while it is small; where it is not, more samples are needed.
        effective_sample_size: The mean over rows of how many exact posterior samples the importance samples are worth.
        lowest_effective_sample_size: The same for the worst row.
        samples: The number of importance samples a row, 0 where the likelihood is exact.
        rows: The number of rows.
    """

    nll: float
    row_error: float
    monte_carlo_error: float
    upward_bias: float
    effective_sample_size: float
    lowest_effective_sample_size: float
    samples: int
    rows: int

    def __str__(self) -> str:
        if not self.samples:
            return f"{self.nll:.3f} +- {self.row_error:.3f} (over {self.rows} rows), exact"
        return (
            f"{self.nll:.3f} +- {self.row_error:.3f} (over {self.rows} rows) +- {self.monte_carlo_error:.3f} "
            f"(Monte Carlo, {self.samples} samples); effective sample size {self.effective_sample_size:.1f}, "
            f"biased upward by about {self.upward_bias:.2f}"
        )

    @property
    def warning(self) -> str | None:
        """A sentence where the samples are too few, so that nobody reads the figure as exact."""
        if self.samples == 1:
            return "one sample a row is the ELBO and cannot tell its own error: take more for a likelihood"
        if not self.samples or self.upward_bias < 0.1:
            return None
        return (
            f"{self.samples} samples are too few for this model to tell its NLL to 0.1 nat: the estimate is biased "
            f"upward by {self.upward_bias:.2f} or more (compare only figures with equal sample counts)"
        )


@dataclass(frozen=True)
class LogVariance:
    """The logarithm of a summed variance: of the gradient of one set of parameters.

    Attributes:
        log_variance: The logarithm of the sum over parameters of the variance of one draw.
        low, high: An interval of 95 % for it, from the spread over groups of draws.
    """

    log_variance: float
    low: float
    high: float
