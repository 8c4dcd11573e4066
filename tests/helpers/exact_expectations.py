"""The expectation of a gradient over every draw that an estimator can make: a finite sum, without sampling error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from helpers.scripted import script
from helpers.small_models import Example, Gradients, Wrapped, gradients, largest_difference
from jsa import Batch, Estimator, LatentVariableModel, Posterior
from jsa.model import LayeredJoint


class RowsTouchError(Exception):
    """The expectation of an estimator cannot be enumerated row by row."""


class FixedDraws(Wrapped):
    """A model whose inference model draws what it is told, and is itself in everything else."""

    draws: Tensor

    def posterior(self, batch: Batch) -> Posterior:
        return script(self.model.posterior(batch), lambda shape: self.draws)


class FixedLayeredDraws(FixedDraws):
    """Likewise, for a model whose layers can be told apart."""

    def log_joint_terms(self, batch: Batch, h: Tensor) -> list[Tensor]:
        assert isinstance(self.model, LayeredJoint)
        return self.model.log_joint_terms(batch, h)


def expected_gradients(
    make: Callable[[LatentVariableModel, Batch], Estimator], model: LatentVariableModel, batch: Batch, particles: int
) -> Gradients:
    """The mean over rows of the expected gradient, over all tuples of so many draws.

    Each row is taken by itself, so that an estimator whose rows know of each other is refused.
    """
    fixed = (FixedLayeredDraws if isinstance(model, LayeredJoint) else FixedDraws)(model)
    _refuse_rows_that_touch(make(model, batch).eval(), fixed, batch, particles)
    total = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    for one in (replace(row, index=torch.arange(1)) for row in _single_rows(batch)):
        # In evaluation mode no running mean moves, so that every tuple meets the same estimator.
        estimator, exact = make(model, one).eval(), Example(model, one).exact
        numbers = torch.arange(len(exact.states))
        for drawn in torch.cartesian_prod(*[numbers] * particles).reshape(-1, particles):
            fixed.draws = exact.states[drawn].unsqueeze(1)
            probability = exact.inference[drawn, 0].prod()
            for name, gradient in gradients(model, estimator(fixed, one).loss).items():
                total[name] += probability * gradient / len(batch)
    return total


def _single_rows(batch: Batch) -> list[Batch]:
    """Each row as a batch of its own, which unlike one that was taken knows nothing of the others."""
    return [batch.take(row).to(batch.x.device) for row in torch.arange(len(batch)).split(1)]


def _refuse_rows_that_touch(estimator: Estimator, fixed: FixedDraws, batch: Batch, particles: int) -> None:
    """Refuses an estimator whose gradient of a batch is not the mean of those of its rows, given the same draws."""
    torch.manual_seed(0)
    for _ in range(5):
        draws = fixed.model.posterior(batch).sample((particles,))
        fixed.draws = draws
        together = gradients(fixed.model, estimator(fixed, batch).loss)
        apart = {name: torch.zeros_like(gradient) for name, gradient in together.items()}
        for row, one in enumerate(_single_rows(batch)):
            fixed.draws = draws[:, [row]]
            for name, gradient in gradients(fixed.model, estimator(fixed, one).loss).items():
                apart[name] += gradient / len(batch)
        if largest_difference(together, apart) > 1e-10:
            raise RowsTouchError(
                "the rows of a batch know of each other here, and draws= enumerates each by itself: leave draws= out"
            )
