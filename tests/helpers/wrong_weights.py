"""Wrong twins of every method, which treat the weights of rows in another way."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch

from jsa import Batch, Estimator, LatentVariableModel
from jsa.batch import Estimate


class DividedBySum(Estimator):
    """The losses are divided by the sum of the weights."""

    def __init__(self, method: Estimator) -> None:
        super().__init__()
        self.method, self.chains = method, method.chains

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        assert batch.weight is not None
        estimate = self.method(model, batch)
        return replace(estimate, loss=estimate.loss / batch.weight.mean())


class UnweightedPhi(DividedBySum):
    """The inference model learns from all rows alike."""

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        again, state = copy.deepcopy(self.method), torch.get_rng_state()
        estimate = self.method(model, batch)
        torch.set_rng_state(state)
        unweighted = again(model, replace(batch, weight=None)).loss
        phi = [parameter for name, parameter in model.named_parameters() if "inference" in name]
        theta = [parameter for name, parameter in model.named_parameters() if "inference" not in name]
        rest = [*theta, *self.method.parameters()]
        # Only the gradient of a loss counts, so a loss may be made of a gradient.
        found = [*torch.autograd.grad(estimate.loss, rest), *torch.autograd.grad(unweighted, phi)]
        terms = [(gradient * parameter).sum() for gradient, parameter in zip(found, [*rest, *phi], strict=True)]
        return replace(estimate, loss=torch.stack(terms).sum())
