"""A model and its estimator as one module."""

from __future__ import annotations

import warnings

import torch
from torch import nn

from jsa.batch import Batch, Estimate
from jsa.estimators.base import Estimator, Stage
from jsa.model import LatentVariableModel


class Learner(nn.Module):
    """A model with its estimator, so that one forward gives the loss: the module that a parallel wrapper wraps.

    The parameters are those of the model and of the estimator's baselines; the chains are not among them.
    """

    def __init__(self, model: LatentVariableModel, estimator: Estimator) -> None:
        super().__init__()
        self.model = model
        self.estimator = estimator

    @property
    def stage(self) -> Stage | None:
        """Where the chains of the estimator start at a visit, None without chains; assign it to switch."""
        return self.estimator.stage

    @stage.setter
    def stage(self, stage: Stage | int) -> None:
        self.estimator.stage = stage

    def forward(self, batch: Batch) -> Estimate:
        """Return the estimate for the batch: call ``backward`` on its loss."""
        if torch.is_grad_enabled() and not self.estimator.training:
            warnings.warn(
                "this learner is in evaluation mode, where no chain moves and no baseline learns: call learner.train() "
                "before training steps, or wrap other passes in torch.no_grad()",
                stacklevel=2,
            )
        estimate: Estimate = self.estimator(self.model, batch)
        return estimate
