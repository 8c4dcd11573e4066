"""The expectation of a gradient over every draw that an estimator can make: a finite sum, without sampling error."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from jsa import Batch, Estimator, LatentVariableModel, Posterior
from scripted import script
from small_models import Gradients, enumerated, gradients


class FixedDraws(LatentVariableModel):
    """A model whose inference model draws what it is told, and is itself in everything else."""

    def __init__(self, model: LatentVariableModel) -> None:
        super().__init__()
        self.model = model
        self.latent = model.latent
        self.relaxable = model.relaxable
        self.draws: Tensor | None = None

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return self.model.log_joint(batch, h)

    def posterior(self, batch: Batch) -> Posterior:
        posterior = self.model.posterior(batch)
        script(posterior, lambda shape: self.draws)
        return posterior


class FixedLayeredDraws(FixedDraws):
    """Likewise, for a model whose layers can be told apart."""

    def log_joint_terms(self, batch: Batch, h: Tensor) -> list[Tensor]:
        return self.model.log_joint_terms(batch, h)  # type: ignore[operator]


def expected_gradients(
    make: Callable[[LatentVariableModel, Batch], Estimator], model: LatentVariableModel, batch: Batch, particles: int
) -> Gradients:
    """The mean over rows of the expected gradient, over all tuples of so many draws."""
    kind = FixedLayeredDraws if hasattr(model, "log_joint_terms") else FixedDraws
    fixed = kind(model)
    total = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    for row in torch.arange(len(batch)).split(1):
        one = batch.take(row)
        # In evaluation mode no running mean moves, so that every tuple meets the same estimator.
        estimator = make(model, one).eval()
        with torch.no_grad():
            exact = enumerated(model, one)
        numbers = torch.arange(len(exact.states))
        for drawn in torch.cartesian_prod(*[numbers] * particles).reshape(-1, particles):
            fixed.draws = exact.states[drawn].unsqueeze(1)
            probability = exact.inference[drawn, 0].prod()
            for name, gradient in gradients(model, estimator(fixed, one).loss).items():
                total[name] += probability * gradient / len(batch)
    return total


def largest_difference(found: Gradients, expected: Gradients) -> float:
    """The largest deviation in any parameter."""
    return max(float((found[name] - expected[name]).abs().max()) for name in expected)
