"""The distribution that a kernel leaves invariant, evaluated at states."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from jsa.batch import Batch
from jsa.errors import Range
from jsa.model import LatentVariableModel
from jsa.model_calls import BatchPosterior, EvaluatedStates, evaluate_unchecked, posterior_of

Start = EvaluatedStates | Float[Tensor, "batch width"] | None
"""Where the chains of a batch stand: evaluated, not yet evaluated, or None for a draw of q."""


class Target:
    r"""The posterior p(h | x) of the rows of a batch, or a bridge to it from q(h | x).

    Its density is proportional to :math:`p(x, h)^\beta q(h | x)^{1 - \beta}`. States are evaluated under the current
    parameters: a weight from an earlier step belongs to another model and would break the invariance. They have a graph
    if gradients are enabled.

    Args:
        model: The model.
        batch: The rows.
        posterior: q(h | x) of the rows, if it was already computed.
        beta: The inverse temperature.

    Attributes:
        evaluations: The number of states of each row that passed through the joint density so far.
    """

    def __init__(
        self, model: LatentVariableModel, batch: Batch, posterior: BatchPosterior | None = None, beta: float = 1.0
    ) -> None:
        Range(above=0, most=1).check(beta=beta)
        self.model = model
        self.batch = batch
        self.posterior = posterior_of(model, batch) if posterior is None else posterior
        self.beta = beta
        self.evaluations = 0

    def evaluate(
        self, h: Float[Tensor, "states batch width"], log_inference: Float[Tensor, "states batch"] | None = None
    ) -> EvaluatedStates:
        """Evaluate states; log q(h | x) is given if it is known from drawing them.

        Whoever uses the states checks their log-weights: ``weighted_loss`` does, and ``Trajectory.checked``.
        """
        self.evaluations += len(h)
        return evaluate_unchecked(self.model, self.batch, self.posterior, h, log_inference)

    def candidates(self, chains: Start, draws: int = 0) -> EvaluatedStates:
        """Evaluate, together, where the chains stand and this many draws of q(h | x) for each row."""
        if chains is None:
            return self.evaluate(*self.posterior.sample_with_log_prob((draws + 1,)))
        if isinstance(chains, EvaluatedStates):
            return together(chains, self.candidates(None, draws - 1)) if draws else chains
        first = chains.unsqueeze(0)
        if not draws:
            return self.evaluate(first)
        drawn, log_inference = self.posterior.sample_with_log_prob((draws,))
        return self.evaluate(torch.cat([first, drawn]), torch.cat([self.posterior.log_prob(first), log_inference]))

    def log_density(self, states: EvaluatedStates) -> Float[Tensor, "states batch"]:
        """Return the logarithm of the density up to a constant, without gradient."""
        joint = states.log_joint.detach()
        return joint if self.beta == 1 else self.beta * joint + (1 - self.beta) * states.log_inference.detach()

    def log_weights(self, states: EvaluatedStates) -> Float[Tensor, "states batch"]:
        """Return the logarithm of the density relative to q(h | x), without gradient."""
        return states.log_weights if self.beta == 1 else self.beta * states.log_weights


def together(*states: EvaluatedStates) -> EvaluatedStates:
    """Put evaluated states of the same rows one after the other."""
    fields = ("h", "log_joint", "log_inference", "log_weights")
    return EvaluatedStates(states[0].posterior, *(torch.cat([getattr(one, name) for one in states]) for name in fields))
