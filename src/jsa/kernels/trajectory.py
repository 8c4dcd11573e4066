"""The moves that a kernel made with the chains of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from jsa import importance
from jsa.batch import Batch
from jsa.model import LatentVariableModel
from jsa.model_calls import BatchPosterior, EvaluatedStates, evaluate_unchecked


@dataclass(frozen=True)
class Trajectory:
    """Moves of the chains of a batch.

    Attributes:
        evaluated: The candidates, evaluated under the current parameters: the initial states, then the proposals.
        path: The number of the candidate at which each chain is after each move.
    """

    evaluated: EvaluatedStates
    path: Int64[Tensor, "moves batch"]

    @property
    def candidates(self) -> Float[Tensor, "candidates batch width"]:
        """The initial states, then the proposals in order."""
        return self.evaluated.h

    @property
    def log_weights(self) -> Float[Tensor, "candidates batch"]:
        """The log-weights of the candidates."""
        return self.evaluated.log_weights

    @property
    def multiplicities(self) -> Int64[Tensor, "candidates batch"]:
        """The number of visits to each candidate."""
        return importance.multiplicities(self.path, self.candidates.shape[0])

    @property
    def acceptances(self) -> Int64[Tensor, " batch"]:
        """The number of accepted moves of each chain."""
        return importance.acceptances(self.path)

    @property
    def last(self) -> Float[Tensor, "batch width"]:
        """The final state of each chain: all layers of a state move together."""
        rows = torch.arange(self.path.shape[1], device=self.path.device)
        return self.candidates[self.path[-1], rows]

    def checked(self, batch: Batch) -> Self:
        """Return the trajectory, or refuse one with a log-weight that is NaN or plus infinity."""
        self.evaluated.check(batch)
        return self


def evaluate_candidates(
    model: LatentVariableModel,
    batch: Batch,
    posterior: BatchPosterior,
    initial: Float[Tensor, "batch width"] | None,
    proposals: int,
) -> EvaluatedStates:
    """Evaluate the initial states, or one more draw, and this many draws from q(h | x) for each row.

    Whoever uses the trajectory checks the log-weights: ``weighted_loss`` does, and ``Trajectory.checked``.
    """
    if initial is None:
        return evaluate_unchecked(model, batch, posterior, *posterior.sample_with_log_prob((proposals + 1,)))
    first = initial.unsqueeze(0)
    drawn, log_inference = posterior.sample_with_log_prob((proposals,))
    return evaluate_unchecked(
        model,
        batch,
        posterior,
        torch.cat([first, drawn]),
        torch.cat([posterior.log_prob(first), log_inference]),
    )
