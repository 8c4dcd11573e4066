"""Draws from q(h | x) with what score-function methods differentiate."""

from __future__ import annotations

from jsa.model import LatentVariableModel
from jsa.passes import EvaluatedStates, draw, evaluate, posterior_of
from jsa.types import Batch


def score_samples(model: LatentVariableModel, batch: Batch, particles: int) -> EvaluatedStates:
    """Draws so many states a row, with one differentiable pass over them."""
    posterior = posterior_of(model, batch)
    return evaluate(model, batch, posterior, *draw(posterior, particles))
