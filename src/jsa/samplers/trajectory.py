"""What a kernel did with the chains of a batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from jsa import weights


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
