"""What a model says about the values of a row that are missing, given those that are there."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from jsa.errors import NumericalError, UsageError, check_at_least
from jsa.evaluation.chunks import device_of, in_chunks, states_in_chunk
from jsa.evaluation.draws import BLOCK, RowDraws
from jsa.evaluation.likelihood import Progress, evaluating
from jsa.evaluation.rows import Rows, as_rows
from jsa.model import Generative, LatentVariableModel, evaluate, log_joint_of_all, states_at_once
from jsa.types import Batch


def impute(
    model: LatentVariableModel,
    rows: Rows | Tensor,
    samples: int = 1000,
    *,
    draw: bool = False,
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> Float[Tensor, "rows width"]:
    r"""The rows with what is missing, NaN, filled in from p(x_missing | x_observed).

    .. math:: p(x_{missing} | x_{observed}) = \sum_h p(x_{missing} | h) \, p(h | x_{observed})

    The states h come from q(h | x), with importance weights; where there are not more states than samples, all of them
    are taken and the result is exact.

    Args:
        model: The model; it can also be drawn from, as the models of this library can.
        rows: The data: a tensor, or anything that gives rows by their numbers.
        samples: Importance samples a row.
        draw: Whether to draw the missing values, all of a row together, so that they vary as the values that are there
            do: for multiple imputation, once with each of several seeds. Otherwise they are expectations: the
            probability of a 1, or of each class.
        seed: The seed of the draws.
        device: Where to evaluate; the device of the model's parameters where not given.
        progress: Called with the number of rows done.

    Example:
        >>> from jsa import BeliefNetwork, LatentSpace, Layer
        >>> model = BeliefNetwork(Layer("bernoulli", 3), LatentSpace.of(Layer("bernoulli", 2)), missing=True)
        >>> impute(model, torch.tensor([[1.0, torch.nan, 0.0]])).isnan().any()
        tensor(False)
    """
    check_at_least(1, samples=samples)
    if not isinstance(model, Generative):
        raise UsageError(
            f"missing values are filled in from p(x | h), and {type(model).__name__} does not give it: write its "
            "methods sample_latent and observation"
        )
    rows = as_rows(rows)
    device = device or device_of(model)
    devices = [device] if device.type != "cpu" else []
    filled = []
    with evaluating(model), torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        states = int(min(samples, model.latent.states))
        for batch in in_chunks(rows, max(1, states_in_chunk(rows) // states), device):
            x = batch.x.clone()
            gaps = x.isnan()
            where = gaps.any(-1).nonzero().flatten()
            if len(where):
                incomplete = batch.take(where)
                h, weights = _posterior_states(model, incomplete, samples, seed)
                values = _drawn(model, incomplete, h, weights) if draw else _expected(model, incomplete, h, weights)
                x[where] = values.to(x.dtype).where(gaps[where], x[where])
            filled.append(x)
            if progress is not None:
                progress(len(batch))
    return torch.cat(filled)


def _posterior_states(
    model: LatentVariableModel, batch: Batch, samples: int, seed: int
) -> tuple[Float[Tensor, "states batch width"], Float[Tensor, "states batch"]]:
    """States of the rows, and weights that sum to one, which stand for p(h | x_observed)."""
    if model.latent.states <= samples:
        states = model.latent.enumerate(batch.state_dtype, batch.x.device)
        log_weights = log_joint_of_all(model, batch, states)
        h = states.unsqueeze(1).expand(-1, len(batch), -1)
    else:
        posterior = model.posterior(batch)
        drawn = RowDraws(model, batch, posterior, seed).blocks(0, math.ceil(samples / BLOCK))
        h, log_inference = (part[:samples] for part in drawn)
        log_weights = evaluate(model, batch, posterior, h, log_inference).log_weights
    weights = log_weights.double().softmax(0)
    wrong = (~weights.isfinite()).any(0).nonzero()
    if len(wrong):
        raise NumericalError(f"no state of a positive probability was found for row {int(batch.index[wrong[0]])}")
    return h, weights


def _expected(model: Generative, batch: Batch, h: Tensor, weights: Tensor) -> Float[Tensor, "batch width"]:
    at_once = max(1, states_at_once(batch) // len(batch))
    total = torch.zeros_like(batch.x, dtype=batch.state_dtype)
    for states, shares in zip(h.split(at_once), weights.split(at_once), strict=True):
        mean = model.observation(states, batch.context).mean
        total += torch.einsum("sb,sbw->bw", shares.to(mean.dtype), mean)
    return total


def _drawn(model: Generative, batch: Batch, h: Tensor, weights: Tensor) -> Float[Tensor, "batch width"]:
    chosen = torch.multinomial(weights.t(), 1).flatten()
    return model.observation(h[chosen, torch.arange(len(batch), device=h.device)], batch.context).sample()
