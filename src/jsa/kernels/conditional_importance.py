"""Conditional importance sampling: the current state competes with fresh proposals by weight."""

from __future__ import annotations

from functools import partial

import torch

from jsa.errors import check_at_least
from jsa.kernels.base import Kernel
from jsa.kernels.target import Start, Target
from jsa.kernels.trajectory import Trajectory, one_after_another


class ConditionalImportance(Kernel):
    """Move to the current state or one of some draws of q(h | x), chosen in proportion to their weights.

    It is reversible for the target.

    Args:
        proposals: The number of draws for each move.

    References:
        Naesseth, Lindsten and Blei, Markovian score climbing: variational inference with KL(p||q), NeurIPS 2020.
    """

    independent = True

    def __init__(self, proposals: int = 2) -> None:
        super().__init__()
        check_at_least(1, proposals=proposals)
        self.proposals = proposals

    def extra_repr(self) -> str:
        return f"{self.proposals}"

    def move(self, target: Target, chains: Start = None, times: int = 1, *, adapt: bool = False) -> Trajectory:
        return one_after_another([partial(self._move, target)] * times, chains)

    def _move(self, target: Target, chains: Start) -> Trajectory:
        evaluated = target.candidates(chains, self.proposals)
        # The candidate into whose part of the summed weights the uniform falls. If no candidate has any weight the sums
        # are NaN, no comparison holds, and the chain stays.
        sums = target.log_weights(evaluated).softmax(0).cumsum(0)
        uniforms = torch.rand(len(target.batch), dtype=evaluated.log_weights.dtype, device=evaluated.h.device)
        chosen = (uniforms * sums[-1] >= sums[:-1]).sum(0)
        fresh = tuple(range(1, self.proposals + 1))
        return Trajectory(evaluated, chosen.unsqueeze(0), fresh, "conditional_importance")
