"""A model and its estimator as one module."""

from __future__ import annotations

import warnings

import torch
from torch import nn

from jsa.batch import Batch, Estimate
from jsa.errors import UsageError
from jsa.estimators.base import Estimator
from jsa.estimators.persistent import PersistentEstimator, Stage
from jsa.model import LatentVariableModel


class Learner(nn.Module):
    """A model with its estimator, so that one forward gives the loss: what a parallel wrapper wraps.

    The parameters are those of the model and of the estimator's baselines; the chains are not among them.
    """

    def __init__(self, model: LatentVariableModel, estimator: Estimator) -> None:
        super().__init__()
        self.model = model
        self.estimator = estimator

    @property
    def stage(self) -> Stage:
        """Where the chains of the estimator start at a visit; assign it to switch."""
        return self._with_chains().stage

    @stage.setter
    def stage(self, stage: Stage | int) -> None:
        self._with_chains().stage = stage

    def _with_chains(self) -> PersistentEstimator:
        if not isinstance(self.estimator, PersistentEstimator):
            raise UsageError(f"{type(self.estimator).__name__} has no chains and so no stages: leave the stage alone")
        return self.estimator

    def forward(self, batch: Batch) -> Estimate:
        """The estimate for the batch: call ``backward`` on its loss."""
        if torch.is_grad_enabled() and not self.estimator.training:
            warnings.warn(
                "this learner is in evaluation mode, where chains and baselines stand still: call learner.train() "
                "before training steps, or wrap what is no training step in torch.no_grad()",
                stacklevel=2,
            )
        estimate: Estimate = self.estimator(self.model, batch)
        return estimate
