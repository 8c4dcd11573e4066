"""Missing values of a row, filled in by a model given the observed values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from jsa.batch import Batch
from jsa.errors import NumericalError, UsageError, check_at_least
from jsa.evaluation.draws import BLOCK, RowDraws
from jsa.evaluation.generative import generative
from jsa.evaluation.likelihood import device_of, evaluating
from jsa.evaluation.rows import Progress, Rows, as_rows, in_chunks, states_in_chunk
from jsa.evaluation.shown import ShownByShape
from jsa.importance import effective_sample_size
from jsa.latent import ENUMERATION_LIMIT
from jsa.model import Generative, LatentVariableModel
from jsa.model_calls import evaluate, log_joint_of_all, posterior_of, refuse_wrong_joint, states_at_once
from jsa.torch_contexts import seeded


@dataclass(frozen=True, repr=False)
class Imputed(ShownByShape):
    """Rows with their missing values filled in.

    Attributes:
        x: The rows.
        effective_sample_size: How many exact posterior samples the importance samples of each row are worth; infinite
            if all states were summed over, and for a row without missing values.
    """

    x: Float[Tensor, "rows width"]
    effective_sample_size: Float64[Tensor, " rows"]


def impute(
    model: LatentVariableModel,
    rows: Rows | Tensor,
    samples: int = 1000,
    *,
    draw: bool = False,
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> Imputed:
    r"""Fill in the missing values (NaN) of rows from p(x_missing | x_observed).

    .. math:: p(x_{missing} | x_{observed}) = \sum_h p(x_{missing} | h) \, p(h | x_{observed})

    The states h come from q(h | x) with importance weights, whose effective sample size shows how reliable the result
    is. If there are no more states than samples, the sum is over all states and the result is exact.

    Args:
        model: The model. It must support sampling, as the models of this library do.
        rows: The data: a tensor, or an object that returns rows by number.
        samples: Importance samples per row.
        draw: Whether to draw the missing values of a row jointly, so that they vary as observed values do. Otherwise
            they are expectations: the probability of a 1, or of each class.
        seed: The seed of the draws.
        device: The device of the evaluation; by default that of the model's parameters.
        progress: Called with the number of rows done.

    Example:
        >>> from jsa import BeliefNetwork, LatentSpace, Layer
        >>> model = BeliefNetwork(Layer("bernoulli", 3), LatentSpace.of(Layer("bernoulli", 2)), missing=True)
        >>> impute(model, torch.tensor([[1.0, torch.nan, 0.0]])).x.isnan().any()
        tensor(False)
    """
    check_at_least(1, samples=samples)
    decoder, rows = generative(model), as_rows(rows)
    device = device or device_of(model)
    filled, sizes = [], []
    with evaluating(model), seeded(seed, device):
        exact = model.latent.states <= min(samples, ENUMERATION_LIMIT)
        every = model.latent.enumerate(device=device) if exact else None
        at_once = states_in_chunk(rows)
        size = max(1, at_once // (samples if every is None else len(every)))
        for batch in in_chunks(rows, size, device, progress):
            if batch.x.ndim != 2:
                raise UsageError(
                    f"only rows that are vectors can be filled in, not rows of shape {tuple(batch.x.shape[1:])}"
                )
            x, gaps = batch.x.clone(), batch.x.isnan()
            worth = torch.full((len(batch),), torch.inf, dtype=torch.float64, device=device)
            where = gaps.any(-1).nonzero().flatten()
            if len(where):
                some = batch.take(where)
                h, log_weights = _sampled(model, some, samples, seed) if every is None else _all(model, some, every)
                values = (_drawn if draw else _expected)(decoder, some, h, log_weights.softmax(0))
                x[where] = values.to(x.dtype).where(gaps[where], x[where])
                if every is None:
                    worth[where] = effective_sample_size(log_weights)
            filled.append(x)
            sizes.append(worth)
    return Imputed(torch.cat(filled).cpu(), torch.cat(sizes).cpu())


def _all(
    model: LatentVariableModel, batch: Batch, every: Float[Tensor, "states width"]
) -> tuple[Float[Tensor, "states batch width"], Float64[Tensor, "states batch"]]:
    """Return every state, with its log-probability given the observed values up to a constant per row."""
    states = every.to(batch.state_dtype)
    parts = [log_joint_of_all(model, batch, part) for part in states.split(_states_at_once(batch))]
    log_weights = torch.cat(parts)
    refuse_wrong_joint(batch, log_weights)
    return states.unsqueeze(1).expand(-1, len(batch), -1), _weighed(batch, log_weights)


def _sampled(
    model: LatentVariableModel, batch: Batch, samples: int, seed: int
) -> tuple[Float[Tensor, "samples batch width"], Float64[Tensor, "samples batch"]]:
    """Return draws from q, with their importance weights."""
    posterior = posterior_of(model, batch)
    drawn = RowDraws(model, batch, posterior, seed).blocks(0, math.ceil(samples / BLOCK))
    h, log_inference = (part[:samples] for part in drawn)
    return h, _weighed(batch, evaluate(model, batch, posterior, h, log_inference).log_weights)


def _weighed(batch: Batch, log_weights: Float[Tensor, "states batch"]) -> Float64[Tensor, "states batch"]:
    nothing = (log_weights == -torch.inf).all(0).nonzero()
    if len(nothing):
        row = batch.row(int(nothing[0]))
        raise NumericalError(f"none of the states of row {row} has a positive probability under the model")
    return log_weights.double()


def _expected(model: Generative, batch: Batch, h: Tensor, weights: Tensor) -> Float[Tensor, "batch width"]:
    total = torch.zeros_like(batch.x, dtype=batch.state_dtype)
    at_once = _states_at_once(batch)
    for states, shares in zip(h.split(at_once), weights.split(at_once), strict=True):
        mean = model.observation(states, batch.context).mean
        total += torch.einsum("sb,sbw->bw", shares.to(mean.dtype), mean)
    return total


def _drawn(model: Generative, batch: Batch, h: Tensor, weights: Tensor) -> Float[Tensor, "batch width"]:
    chosen = torch.multinomial(weights.t(), 1).flatten()
    return model.observation(h[chosen, torch.arange(len(batch), device=h.device)], batch.context).sample()


def _states_at_once(batch: Batch) -> int:
    return max(1, states_at_once(batch) // len(batch))
