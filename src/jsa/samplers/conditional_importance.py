"""Conditional importance sampling: the present state competes with fresh proposals by their weights."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from jsa.model import LatentVariableModel, Posterior, log_weights
from jsa.samplers.trajectory import Trajectory
from jsa.types import Batch


@torch.no_grad()
def conditional_importance(
    model: LatentVariableModel,
    batch: Batch,
    posterior: Posterior,
    initial: Float[Tensor, "batch width"],
    proposals: int,
) -> Trajectory:
    """One move of each row's chain: to one of its state and so many proposals, chosen in proportion to their weights.

    References:
        Naesseth, Lindsten and Blei, Markovian score climbing: variational inference with KL(p||q), NeurIPS 2020.
    """
    candidates = torch.cat([initial.unsqueeze(0), posterior.sample((proposals,))])
    weights_of_candidates = log_weights(model, batch, posterior, candidates)
    # The candidate into whose part of the summed weights the uniform falls. Where no candidate has any weight the sums
    # are no numbers, no comparison holds, and the chain stays.
    sums = weights_of_candidates.softmax(0).cumsum(0)
    uniforms = torch.rand(len(batch), dtype=initial.dtype, device=initial.device)
    chosen = (uniforms * sums[-1] >= sums[:-1]).sum(0)
    return Trajectory(candidates, weights_of_candidates, chosen.unsqueeze(0))
