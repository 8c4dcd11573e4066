"""Conditional importance sampling: the current state competes with fresh proposals by weight."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from jsa.batch import Batch
from jsa.kernels.trajectory import Trajectory, evaluate_candidates
from jsa.model import LatentVariableModel
from jsa.model_calls import BatchPosterior


def conditional_importance(
    model: LatentVariableModel,
    batch: Batch,
    posterior: BatchPosterior,
    initial: Float[Tensor, "batch width"] | None,
    proposals: int,
) -> Trajectory:
    """Make one move of each row's chain: to its state or a proposal, chosen in proportion to their weights.

    Without an initial state the chain starts from a draw of q. The candidates are evaluated with a graph if gradients
    are enabled.

    References:
        Naesseth, Lindsten and Blei, Markovian score climbing: variational inference with KL(p||q), NeurIPS 2020.
    """
    evaluated = evaluate_candidates(model, batch, posterior, initial, proposals)
    # The candidate into whose part of the summed weights the uniform falls. If no candidate has any weight the sums are
    # NaN, no comparison holds, and the chain stays.
    sums = evaluated.log_weights.softmax(0).cumsum(0)
    uniforms = torch.rand(len(batch), dtype=evaluated.log_weights.dtype, device=evaluated.h.device)
    chosen = (uniforms * sums[-1] >= sums[:-1]).sum(0)
    return Trajectory(evaluated, chosen.unsqueeze(0))
