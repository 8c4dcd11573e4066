"""The negative log-likelihood of data under a model, and bounds on it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from jsa.batch import weighted
from jsa.errors import NumericalError, UsageError, check_at_least
from jsa.evaluation.draws import BLOCK, RowDraws
from jsa.evaluation.results import Likelihood as Likelihood
from jsa.evaluation.rows import Progress, Rows, as_rows, in_chunks, row_weights, states_in_chunk
from jsa.importance import effective_sample_size, log_mean_weight
from jsa.model import LatentVariableModel
from jsa.model_calls import evaluate, log_joint_of_all, posterior_of, refuse_wrong_joint, state_dtype
from jsa.torch_contexts import in_evaluation_mode

WEIGHTS_AT_ONCE = 50_000
"""Number of log-weights that are summed at once: fifty rows of 1,000 samples."""


def likelihood(
    model: LatentVariableModel,
    rows: Rows | Tensor,
    samples: int = 1000,
    *,
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> Likelihood:
    r"""Estimate -log p(x) by importance sampling from q(h | x), in bounded memory.

    .. math:: -\log \frac1S \sum_{s=1}^S \frac{p(x, h_s)}{q(h_s | x)}, \quad h_s \sim q(h | x)

    The draws are tied to the row and the sample number: other chunk sizes change the last digits only. If the rows have
    weights, the result is the weighted mean.

    Args:
        model: The model.
        rows: The data: a tensor, or an object that returns rows by number.
        samples: Importance samples per row.
        seed: The seed of the draws.
        device: The device of the evaluation; by default that of the model's parameters.
        progress: Called with the number of rows done.

    References:
        Burda, Grosse and Salakhutdinov, Importance weighted autoencoders, ICLR 2016.
    """
    return row_likelihoods(model, rows, samples, seed=seed, device=device, progress=progress).mean


def row_likelihoods(
    model: LatentVariableModel,
    rows: Rows | Tensor,
    samples: int = 1000,
    *,
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> RowLikelihoods:
    """Estimate -log p(x) of each row. The arguments are those of ``likelihood``, which returns the mean.

    Example:
        >>> from jsa import BeliefNetwork, LatentSpace, Layer
        >>> model = BeliefNetwork(Layer("bernoulli", 6), LatentSpace.of(Layer("bernoulli", 4)))
        >>> found = row_likelihoods(model, torch.eye(6), samples=50)
        >>> found.nll.shape, found.mean == likelihood(model, torch.eye(6), samples=50)
        (torch.Size([6]), True)
    """
    rows = as_rows(rows)
    weights = row_weights(rows)
    return by_row(_joined(_weights_by_chunk(model, rows, samples, seed, device, progress)), samples, weights)


def multi_sample_bounds(
    model: LatentVariableModel,
    rows: Rows | Tensor,
    particles: Sequence[int] = (1, 5, 50),
    samples: int = 1000,
    *,
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> dict[int, float]:
    """Return the multi-sample lower bounds on the mean of log p(x); with one particle, this is the ELBO.

    If the rows have weights, the means over rows are weighted.

    Args:
        model: The model.
        rows: The data: a tensor, or an object that returns rows by number.
        particles: The numbers of particles.
        samples: The draws per row for each bound, divided into groups of that many particles.
        seed: The seed of the draws.
        device: The device of the evaluation; by default that of the model's parameters.
        progress: Called with the number of rows done.
    """
    rows = as_rows(rows)
    check_bounds(particles, samples)
    totals = dict.fromkeys(particles, 0.0)
    counting, done = row_weights(rows), 0
    for weights in _joined(_weights_by_chunk(model, rows, samples, seed, device, progress)):
        here = None if counting is None else counting[done : done + weights.shape[1]].to(weights.device)
        for count in totals:
            groups = weights[: samples // count * count].unflatten(0, (-1, count)).transpose(0, 1)
            totals[count] += float(weighted(log_mean_weight(groups).mean(0), here).sum())
        done += weights.shape[1]
    return {count: total / len(rows) for count, total in totals.items()}


def check_bounds(particles: Sequence[int], samples: int) -> None:
    """Refuse a number of particles that exceeds the draws per row, or no number at all."""
    if not particles or min(particles) < 1 or max(particles) > samples:
        given = ", ".join(map(str, particles)) or "none"
        raise UsageError(f"a bound takes 1 to {samples} particles (the number of samples), not {given}")


def exact_likelihood(
    model: LatentVariableModel,
    rows: Rows | Tensor,
    *,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> Likelihood:
    """Return -log p(x) by summing over every latent state, for small discrete latent spaces."""
    return exact_row_likelihoods(model, rows, device=device, progress=progress).mean


def exact_row_likelihoods(
    model: LatentVariableModel,
    rows: Rows | Tensor,
    *,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> RowLikelihoods:
    """Return -log p(x) of each row. The arguments are those of ``exact_likelihood``, which returns the mean."""
    rows = as_rows(rows)
    weights = row_weights(rows)
    device = device or device_of(model)
    values = []
    with evaluating(model):
        states, at_once = model.latent.enumerate(device=device), states_in_chunk(rows)
        for batch in in_chunks(rows, max(1, at_once // len(states)), device, progress):
            dtype = state_dtype(model, batch)
            parts = [log_joint_of_all(model, batch, part.to(dtype)) for part in states.split(at_once)]
            joint = torch.cat(parts).double()
            refuse_wrong_joint(batch, joint)
            values.append(torch.logsumexp(joint, 0))
    log_likelihood = torch.cat(values).cpu()
    return RowLikelihoods(-log_likelihood, torch.full_like(log_likelihood, torch.inf), samples=0, weights=weights)


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Evaluate without gradients inside this block; then restore the modes of the model."""
    with in_evaluation_mode(model), torch.no_grad():
        yield


def by_row(
    chunks: Iterable[Float64[Tensor, "samples some"]],
    samples: int,
    weights: Float64[Tensor, " rows"] | None,
    annealing_steps: int = 0,
) -> RowLikelihoods:
    """Return the likelihood of each row from the log-weights of its samples, which come chunk by chunk."""
    values, sizes = [], []
    for log_weights in chunks:
        values.append(-log_mean_weight(log_weights))
        sizes.append(effective_sample_size(log_weights))
    return RowLikelihoods(torch.cat(values).cpu(), torch.cat(sizes).cpu(), samples, annealing_steps, weights)


def _weights_by_chunk(
    model: LatentVariableModel,
    rows: Rows,
    samples: int,
    seed: int,
    device: torch.device | None,
    progress: Progress | None,
) -> Iterator[Float[Tensor, "samples batch"]]:
    """Yield the log-weights of all samples, one group of rows after the other."""
    check_at_least(1, samples=samples)
    device = device or device_of(model)
    at_once = states_in_chunk(rows)
    blocks = math.ceil(samples / BLOCK)
    blocks_at_once = min(blocks, math.ceil(at_once / BLOCK))
    rows_at_once = max(1, at_once // min(samples, blocks_at_once * BLOCK))
    with evaluating(model):
        for batch in in_chunks(rows, rows_at_once, device, progress):
            posterior = posterior_of(model, batch)
            draws = RowDraws(model, batch, posterior, seed)
            parts = []
            for first in range(0, blocks, blocks_at_once):
                count = min(blocks_at_once, blocks - first)
                drawn = (part[: samples - first * BLOCK] for part in draws.blocks(first, count))
                parts.append(evaluate(model, batch, posterior, *drawn).log_weights)
            yield torch.cat(parts)


def _joined(chunks: Iterable[Float[Tensor, "samples some"]]) -> Iterator[Float64[Tensor, "samples more"]]:
    """Yield log-weights of many rows at once, in double precision, because summing them takes many small calls."""
    waiting: list[Tensor] = []
    for weights in chunks:
        waiting.append(weights)
        if sum(part.numel() for part in waiting) >= WEIGHTS_AT_ONCE:
            yield torch.cat(waiting, dim=1).double()
            waiting = []
    if waiting:
        yield torch.cat(waiting, dim=1).double()


@dataclass(frozen=True, repr=False)
class RowLikelihoods:
    """The negative log-likelihood of each row, in nats; rows with a high one are unusual under the model.

    Attributes:
        nll: -log p(x) of each row, or its estimate.
        effective_sample_size: How many exact posterior samples the importance samples of each row are worth; infinite
            if the likelihood is exact.
        samples: The number of importance samples per row, 0 if the likelihood is exact.
        annealing_steps: The number of temperatures between q and the posterior, 0 without annealing.
        weights: How much each row counts in the mean; None if all count alike.
    """

    nll: Float64[Tensor, " rows"]
    effective_sample_size: Float64[Tensor, " rows"]
    samples: int
    annealing_steps: int = 0
    weights: Float64[Tensor, " rows"] | None = None

    def __post_init__(self) -> None:
        wrong = (~self.nll.isfinite()).nonzero()
        if len(wrong):
            row = int(wrong[0])
            raise NumericalError(
                f"log p(x) is {-float(self.nll[row])} at row {row} ({len(wrong)} such rows): none of the states drawn "
                "has a positive probability under the model; take more samples, or check the model at this row"
            )

    def __repr__(self) -> str:
        low, high = (float(end) for end in self.nll.aminmax())
        return f"RowLikelihoods({len(self.nll):,} rows from {low:.3f} to {high:.3f}, mean {self.mean})"

    def _repr_html_(self) -> str:
        return self.mean._repr_html_()

    @property
    def effective_rows(self) -> float:
        r"""How many rows of equal weight these are worth: :math:`(\sum_i w_i)^2 / \sum_i w_i^2` with weights w."""
        weights = self.weights
        return float(len(self.nll)) if weights is None else float(weights.sum().square() / weights.square().sum())

    @property
    def mean(self) -> Likelihood:
        r"""The mean over rows, with its errors. Of n rows with weights :math:`w_i` and mean NLL m, the row error is

        .. math:: \sqrt{\frac{n}{n - 1} \sum_i w_i^2 (\mathrm{nll}_i - m)^2} \Big/ \sum_i w_i,

        the error of a quotient of two means. If the spread of the NLLs does not depend on the weights, this is that
        spread over the square root of ``effective_rows``. Rows of weight zero are left out.
        """
        nll, sizes = self.nll, self.effective_sample_size
        weights = torch.ones_like(nll)
        if self.weights is not None:
            there = self.weights.to(nll.device) > 0
            nll, sizes, weights = nll[there], sizes[there], self.weights.to(nll.device)[there]
            weights = weights / weights.mean()
        mean = (weights * nll).mean()
        # Weighted deviations have mean zero, so that their standard deviation is the root of their mean square.
        spread = nll if self.weights is None else weights * (nll - mean)
        rows, samples = len(nll), self.samples
        # The delta method: the variance of log w-bar is that of w-bar over its squared mean, which is 1/ESS - 1/S. One
        # sample has no spread to measure, and exact figures have none.
        unknown = float("nan")
        correction = 1.0 if not samples else samples / (samples - 1) if samples > 1 else unknown
        variance = (1 / sizes - (1 / samples if samples else 0)).clamp_min(0) * correction
        return Likelihood(
            nll=float(mean),
            row_error=float(spread.std()) / math.sqrt(rows) if rows > 1 else unknown,
            monte_carlo_error=float((weights.square() * variance).sum().sqrt()) / rows,
            upward_bias=0.5 * float((weights * variance).mean()),
            effective_sample_size=float((weights * sizes).mean()),
            lowest_effective_sample_size=float(sizes.min()),
            samples=samples,
            rows=rows,
            annealing_steps=self.annealing_steps,
        )


def device_of(model: torch.nn.Module) -> torch.device:
    """Return the device of a model's parameters, or of its buffers if it has none."""
    first = next(chain(model.parameters(), model.buffers()), None)
    return torch.device("cpu") if first is None else first.device
