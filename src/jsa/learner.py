"""A model and its estimator as one module."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from jsa.batch import Batch, Estimate
from jsa.estimators.base import Estimator, Stage
from jsa.model import LatentVariableModel
from jsa.parameter_groups import parameter_groups


class Learner(nn.Module):
    """A model with its estimator, so that one forward gives the loss: the module that a parallel wrapper wraps.

    The parameters are those of the model and of the estimator's baselines; the chains are not among them.
    """

    def __init__(self, model: LatentVariableModel, estimator: Estimator) -> None:
        super().__init__()
        self.model = model
        self.estimator = estimator

    def __repr__(self) -> str:
        """Return one line; ``print(learner.model)`` shows the networks."""
        count = sum(parameter.numel() for parameter in self.model.parameters() if not is_lazy(parameter))
        latent = getattr(self.model, "latent", "no latent space")
        return f"Learner({type(self.model).__name__}({latent}; {count:,} parameters), {self.estimator})"

    @property
    def stage(self) -> Stage | None:
        """Where the chains of the estimator start at a visit, None without chains; assign it to switch."""
        return self.estimator.stage

    @stage.setter
    def stage(self, stage: Stage | int) -> None:
        self.estimator.stage = stage

    def parameter_groups(self, batch: Batch) -> list[dict[str, Any]]:
        """Return the parameters as groups for any optimizer of torch, each with its ``name`` and its ``params``.

        - ``theta``: the parameters of the model that are not in phi. One that neither p nor q reaches is here, too: it
          may learn from another batch, or from another loss.
        - ``phi``: the parameters on which log q(h | x) depends, also those that p and q share.
        - ``estimator``: what the estimator learns besides, such as baselines.

        A group without parameters is left out, and frozen parameters (``requires_grad`` is False) are in none. Asking
        takes one pass of the inference network, and changes nothing of the learner.

        Args:
            batch: Some rows of the data, for that pass.

        Example:
            >>> from jsa import JSA, BeliefNetwork, LatentSpace, Layer
            >>> model = BeliefNetwork(Layer("bernoulli", 6), LatentSpace.of(Layer("bernoulli", 4)))
            >>> learner = Learner(model, JSA(model.latent, rows=100))
            >>> rates = {"theta": 1e-3, "phi": 3e-3, "estimator": 1e-2}
            >>> groups = learner.parameter_groups(Batch(torch.zeros(2, 6)))
            >>> optimizer = torch.optim.Adam([{**group, "lr": rates[group["name"]]} for group in groups])
            >>> [(group["name"], group["lr"], len(group["params"])) for group in optimizer.param_groups]
            [('theta', 0.001, 2), ('phi', 0.003, 2)]
        """
        groups = parameter_groups(self.model, batch)
        # An estimator may use networks of the model, and an optimizer takes a parameter once.
        taken = {id(parameter) for parameter in self.model.parameters()}
        own = [one for one in self.estimator.parameters() if one.requires_grad and id(one) not in taken]
        named = {**groups, "estimator": own}
        return [{"name": name, "params": parameters} for name, parameters in named.items() if parameters]

    if TYPE_CHECKING:
        # torch declares that a call returns anything.
        def __call__(self, batch: Batch) -> Estimate: ...

    def forward(self, batch: Batch) -> Estimate:
        """Return the estimate for the batch: call ``backward`` on its loss."""
        if torch.is_grad_enabled() and not self.estimator.training:
            warnings.warn(
                "this learner is in evaluation mode, where no chain moves and no baseline learns: call learner.train() "
                "before training steps, or wrap other passes in torch.no_grad()",
                stacklevel=2,
            )
        return self.estimator(self.model, batch)
