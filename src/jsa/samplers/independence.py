"""Metropolis independence sampling: proposals from q(h | x), whatever the present state."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from jsa import weights
from jsa.model import LatentVariableModel, Posterior, log_weights
from jsa.types import Batch


@dataclass(frozen=True)
class Trajectory:
    """Some moves of the chains of a batch.

    Attributes:
        candidates: The initial states, then the proposals in order.
        log_weights: Their log-weights under the present parameters.
        path: The number of the candidate at which each chain stands after each move.
    """

    candidates: Float[Tensor, "candidates batch width"]
    log_weights: Float[Tensor, "candidates batch"]
    path: Int64[Tensor, "moves batch"]

    @property
    def multiplicities(self) -> Int64[Tensor, "candidates batch"]:
        """How often each candidate is visited."""
        return weights.multiplicities(self.path, self.candidates.shape[0])

    @property
    def acceptances(self) -> Int64[Tensor, " batch"]:
        """How many moves of each chain were accepted."""
        return weights.acceptances(self.path)

    @property
    def last(self) -> Float[Tensor, "batch width"]:
        """Where each chain stands in the end: all layers of a state move together."""
        rows = torch.arange(self.path.shape[1], device=self.path.device)
        return self.candidates[self.path[-1], rows]


@torch.no_grad()
def metropolis_independence(
    model: LatentVariableModel,
    batch: Batch,
    posterior: Posterior,
    initial: Float[Tensor, "batch width"],
    moves: int,
) -> Trajectory:
    """Moves each row's chain from its initial state with the inference model as proposal.

    The weight of the initial state is computed here, under the present parameters: a weight from an earlier step
    belongs to another model and would break the invariance.

    References:
        Liu, Monte Carlo Strategies in Scientific Computing (Springer, 2008), section 5.4.2.
    """
    candidates = torch.cat([initial.unsqueeze(0), posterior.sample((moves,))])
    weights_of_candidates = log_weights(model, batch, posterior, candidates)
    uniforms = torch.rand(moves, len(batch), dtype=initial.dtype, device=initial.device)
    path = weights.independence_path(weights_of_candidates, uniforms)
    return Trajectory(candidates, weights_of_candidates, path)
