"""Metropolis independence sampling: proposals from q(h | x), whatever the current state."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from jsa import importance
from jsa.batch import Batch
from jsa.kernels.trajectory import Trajectory, evaluate_candidates
from jsa.model import LatentVariableModel
from jsa.model_calls import BatchPosterior


def metropolis_independence(
    model: LatentVariableModel,
    batch: Batch,
    posterior: BatchPosterior,
    initial: Float[Tensor, "batch width"] | None,
    moves: int,
) -> Trajectory:
    """Move each row's chain from its initial state, or from a draw of q, with the inference model as proposal.

    The weight of the initial state is computed here, under the current parameters: a weight from an earlier step
    belongs to another model and would break the invariance. The candidates are evaluated with a graph if gradients are
    enabled.

    References:
        Liu, Monte Carlo Strategies in Scientific Computing (Springer, 2008), section 5.4.2.
    """
    evaluated = evaluate_candidates(model, batch, posterior, initial, moves)
    uniforms = torch.rand(moves, len(batch), dtype=evaluated.log_weights.dtype, device=evaluated.h.device)
    return Trajectory(evaluated, importance.independence_path(evaluated.log_weights, uniforms))
