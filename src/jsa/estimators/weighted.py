"""The loss that weighted-sample methods share: minus a weighted mean of log p(x, h) + log q(h | x)."""

from __future__ import annotations

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
) -> Float[Tensor, ""]:
    """Minus the batch mean of sum_k w_k (log p(x, h_k) + log q(h_k | x)), over the states of positive weight only.

    The weights and states are constants. Most candidates of a chain are refused and carry no weight, so dropping
    them is what makes many particles cheap; it also keeps denormal weights out of the backward pass.
    """
    chosen = weights > 0
    candidate, row = chosen.nonzero(as_tuple=True)
    visited = states[candidate, row]
    weight = weights[candidate, row]
    total = (weight * log_joint(model, batch.take(row), visited)).sum()
    if isinstance(posterior, RowsTaken):
        taken = posterior.take(row)
        assert isinstance(taken, Posterior)
        total = total + (weight * log_prob(taken, visited)).sum()
    else:
        # A posterior of the user's own may know its rows only as they are: all states pass, the dropped ones with
        # a weight of zero.
        total = total + (weights * log_prob(posterior, states)).sum()
    return -total / len(batch)
