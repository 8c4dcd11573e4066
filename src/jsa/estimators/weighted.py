"""The loss that weighted-sample methods share: minus a weighted mean of log p(x, h) + log q(h | x)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from jsa.model import LatentVariableModel, Posterior, log_joint, log_prob
from jsa.posteriors import RowsTaken
from jsa.types import Batch


def weighted_loss(
    model: LatentVariableModel,
    batch: Batch,
    posterior: Posterior,
    states: Float[Tensor, "candidates batch width"],
    weights: Float[Tensor, "candidates batch"],
    inference_scale: float = 1.0,
) -> Float[Tensor, ""]:
    """Minus the batch mean of sum_k w_k (log p(x, h_k) + log q(h_k | x)), over the states that count only.

    The weights, which sum to one for each row, and the states are constants. Most candidates of a chain are refused and
    carry no weight, so dropping them is what makes many particles cheap. A weight below the square of the precision is
    dropped too: no sum can show it, and products with it are denormal numbers, which slow a backward pass severalfold.

    Args:
        model: The model.
        batch: The rows.
        posterior: q(h | x) of the rows.
        states: The candidates.
        weights: The weight of each candidate.
        inference_scale: A factor of the second term.
    """
    chosen = weights > torch.finfo(weights.dtype).eps ** 2
    candidate, row = chosen.nonzero(as_tuple=True)
    visited = states[candidate, row]
    weight = weights[candidate, row]
    total = (weight * log_joint(model, batch.take(row), visited)).sum()
    if isinstance(posterior, RowsTaken):
        taken = posterior.take(row)
        assert isinstance(taken, Posterior)
        total = total + inference_scale * (weight * log_prob(taken, visited)).sum()
    else:
        # A posterior of the user's own may know its rows only as they are: all states pass, and the
        # dropped ones count for nothing.
        total = total + inference_scale * (weights * log_prob(posterior, states).where(chosen, 0)).sum()
    return -total / len(batch)
