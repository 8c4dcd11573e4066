"""Draws from q(h | x) with what score-function methods differentiate."""

from __future__ import annotations

from jsa.model import EvaluatedStates, LatentVariableModel, draw, evaluate
from jsa.types import Batch


def score_samples(model: LatentVariableModel, batch: Batch, particles: int) -> EvaluatedStates:
    """Draws so many states a row, with one differentiable pass over them."""
    posterior = model.posterior(batch)
    return evaluate(model, batch, posterior, *draw(posterior, particles))
