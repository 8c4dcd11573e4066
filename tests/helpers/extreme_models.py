"""Small models whose numbers are driven to the edge, and a step that must be sound."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from helpers.methods import estimator_of
from helpers.small_models import Example, Wrapped
from jsa import Batch, Estimate, Estimator, LatentVariableModel
from jsa.distributions import Factorized
from jsa.relaxation import LatentConditionals
from jsa.training.finite_checks import refuse_non_finite_step

DTYPES = (torch.float64, torch.float32)


class Changed(Wrapped):
    """A model with another log_joint."""

    def __init__(self, model: LatentVariableModel, change: Callable[[Tensor, Batch, Tensor], Tensor]) -> None:
        super().__init__(model)
        self.change = change

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return self.change(self.model.log_joint(batch, h), batch, h)

    def latent_conditionals(self, batch: Batch, h: Tensor) -> list[Factorized]:
        """The factors of the prior, for methods that relax them."""
        assert isinstance(self.model, LatentConditionals)
        return self.model.latent_conditionals(batch, h)


def impossible(joint: Tensor, rows: Batch, h: Tensor) -> Tensor:
    """No probability where the first number of a state is zero."""
    return torch.where(h[..., 0] > 0.5, joint, -math.inf)


def impossible_at_row_1(joint: Tensor, rows: Batch, h: Tensor) -> Tensor:
    """The same at row 1 only."""
    return torch.where(rows.row_numbers == 1, impossible(joint, rows, h), joint)


def in_precision(example: Example, dtype: torch.dtype) -> tuple[LatentVariableModel, Batch]:
    changed = example.to(dtype)
    return changed.model, changed.batch


def stepped(
    name: str, model: LatentVariableModel, batch: Batch, estimator: Estimator | None = None, seed: int = 1
) -> Estimate:
    """A step as the training makes it, up to the optimizer: what is not finite is refused."""
    estimator = estimator or estimator_of(name, model, batch)
    parameters = dict(model.named_parameters()) | {f"estimator.{key}": one for key, one in estimator.named_parameters()}
    for parameter in parameters.values():
        parameter.grad = None
    torch.manual_seed(seed)
    estimate: Estimate = estimator(model, batch)
    estimate.loss.backward()
    refuse_non_finite_step(estimate, batch, parameters)
    return estimate


def sound_step(
    name: str,
    model: LatentVariableModel,
    batch: Batch,
    estimator: Estimator | None = None,
    *,
    objective_may_be_infinite: bool = False,
    seed: int = 1,
) -> Estimate:
    """A step of which every number is finite."""
    estimate = stepped(name, model, batch, estimator, seed)
    assert estimate.loss.isfinite()
    assert objective_may_be_infinite or estimate.objective.isfinite()
    for key, value in estimate.diagnostics.items():
        assert value.isfinite(), key
    for key, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), key
    return estimate
