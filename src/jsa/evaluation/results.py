"""The results of evaluations: likelihoods and variances. Nothing here needs torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from jsa.io.displays import figures_table
from jsa.io.json_records import to_record

TRUSTED_BIAS = 0.1
"""Up to this many nats, the leading term of the bias is close to the whole bias."""


@dataclass(frozen=True)
class Likelihood:
    """An estimate of the mean negative log-likelihood per row, in nats, with its errors.

    If the rows have weights, it is the weighted mean; rows of weight zero are left out.

    Attributes:
        nll: The estimate. By Jensen's inequality it is biased upward.
        row_error: Its standard error for the population, from the spread over rows. NaN for one row.
        monte_carlo_error: Its standard error for these rows, from the noise of the importance samples. NaN for one
            sample per row.
        upward_bias: The leading term of the bias, half the relative variance of the mean weight. It is reliable only
            while it is small; if it is large, more samples are needed. NaN for one sample per row.
        effective_sample_size: The mean over rows of how many exact posterior samples the importance samples are worth.
        lowest_effective_sample_size: The same for the worst row.
        samples: The number of importance samples per row, 0 if the likelihood is exact.
        rows: The number of rows.
        annealing_steps: The number of temperatures between q and the posterior, 0 without annealing.
    """

    nll: float
    row_error: float
    monte_carlo_error: float
    upward_bias: float
    effective_sample_size: float
    lowest_effective_sample_size: float
    samples: int
    rows: int
    annealing_steps: int = 0

    def __str__(self) -> str:
        over_rows = f"+- {self.row_error:.3f} (over {self.rows} rows)" if self.rows > 1 else "(one row has no error)"
        if not self.samples:
            return f"{self.nll:.3f} {over_rows}, exact"
        if self.samples == 1:
            return f"{self.nll:.3f} {over_rows} (one sample per row has no Monte Carlo error)"
        annealed = f" of {self.annealing_steps} annealing steps" if self.annealing_steps else ""
        return (
            f"{self.nll:.3f} {over_rows} +- {self.monte_carlo_error:.3f} "
            f"(Monte Carlo, {self.samples} samples{annealed}); effective sample size {self.effective_sample_size:.1f}, "
            f"biased upward by {'about' if self.upward_bias < TRUSTED_BIAS else 'at least'} {self.upward_bias:.2f}"
        )

    def _repr_html_(self) -> str:
        figures = {"negative log-likelihood": f"{self.nll:.3f} nats per row"}
        if self.rows > 1:
            figures["standard error over rows"] = f"{self.row_error:.3f} ({self.rows:,} rows)"
        if not self.samples:
            return figures_table(figures | {"samples": "none: summed over all states"})
        if self.samples > 1:
            figures["standard error of sampling"] = f"{self.monte_carlo_error:.3f}"
            figures["upward bias"] = (
                f"{'about' if self.upward_bias < TRUSTED_BIAS else 'at least'} {self.upward_bias:.2f}"
            )
        figures["effective sample size"] = (
            f"{self.effective_sample_size:.1f} on average, {self.lowest_effective_sample_size:.1f} at the worst row"
        )
        annealed = f", annealed in {self.annealing_steps:,} steps" if self.annealing_steps else ""
        return figures_table(figures | {"samples": f"{self.samples:,} per row{annealed}"}, self.warning)

    @property
    def warning(self) -> str | None:
        """A sentence for the user if the samples are too few to rely on the figure, else None."""
        if self.samples == 1:
            return "one sample per row gives the ELBO without an error: take more samples for a likelihood"
        if not self.samples or self.upward_bias < TRUSTED_BIAS:
            return None
        return (
            f"{self.samples} samples are too few to estimate the NLL of this model to 0.1 nat: the estimate is biased "
            f"upward by {self.upward_bias:.2f} or more (compare only figures with equal sample counts)"
        ) + (
            ""
            if self.annealing_steps
            else "; annealing may come closer, for some rows (jsa.annealed_likelihood, jsa evaluate --annealing-steps)"
        )


@dataclass(frozen=True)
class LogVariance:
    """The logarithm of a summed variance: of the gradient of one set of parameters.

    Attributes:
        log_variance: The logarithm of the variance of one draw, summed over parameters; minus infinity if there is no
            variance.
        low, high: Its 95 % interval, from the spread over groups of draws.
    """

    log_variance: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.log_variance:.2f} ({self.low:.2f} to {self.high:.2f})"


def figures_record(figures: object) -> Any:
    """Convert figures to JSON values, with null for a number that is not finite, which JSON does not have.

    >>> figures_record({"nll": 91.5, "row_error": float("nan"), "variances": [float("-inf")]})
    {'nll': 91.5, 'row_error': None, 'variances': [None]}
    """
    return _finite_or_none(to_record(figures))


def _finite_or_none(record: Any) -> Any:
    if isinstance(record, dict):
        return {name: _finite_or_none(value) for name, value in record.items()}
    if isinstance(record, list):
        return [_finite_or_none(value) for value in record]
    return None if isinstance(record, float) and not math.isfinite(record) else record
