"""Draws from q(h | x) with what score-function methods differentiate."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from jsa.model import LatentVariableModel, Posterior, log_joint, log_prob, refuse_non_finite
from jsa.types import Batch


@dataclass(frozen=True)
class ScoreSamples:
    """Draws of a batch.

    Attributes:
        posterior: q(h | x), of one encoder pass.
        h: The draws.
        log_joint: log p(x, h), differentiable in theta.
        log_inference: log q(h | x), differentiable in phi.
        log_weights: Their difference, without gradient: the learning signal.
    """

    posterior: Posterior
    h: Float[Tensor, "samples batch width"]
    log_joint: Float[Tensor, "samples batch"]
    log_inference: Float[Tensor, "samples batch"]
    log_weights: Float[Tensor, "samples batch"]


def score_samples(model: LatentVariableModel, batch: Batch, particles: int) -> ScoreSamples:
    """Draws so many states a row, with one differentiable pass over them."""
    posterior = model.posterior(batch)
    h = posterior.sample((particles,))
    joint, inference = log_joint(model, batch, h), log_prob(posterior, h)
    log_weights = (joint - inference).detach()
    refuse_non_finite(batch, joint.detach(), inference.detach(), log_weights)
    return ScoreSamples(posterior, h, joint, inference, log_weights)
