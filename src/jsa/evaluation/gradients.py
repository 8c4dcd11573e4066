"""The gradients of theta and of phi, each as one vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from jsa.errors import UsageError
from jsa.model import LatentVariableModel
from jsa.passes import draw, posterior_of
from jsa.types import Batch


@torch.enable_grad()
def parameter_groups(model: LatentVariableModel, batch: Batch) -> dict[str, list[nn.Parameter]]:
    """The parameters of the model, theta, and those of the inference model, phi: the ones that log q depends on.

    Parameters that are frozen are in neither.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise UsageError("no parameter of the model has a gradient: unfreeze some with requires_grad_()")
    _, log_inference = draw(posterior_of(model, batch), 1)
    reached: Sequence[Tensor | None] = [None] * len(parameters)
    if log_inference.requires_grad:
        reached = torch.autograd.grad(log_inference.sum(), parameters, allow_unused=True)
    phi = [parameter for parameter, gradient in zip(parameters, reached, strict=True) if gradient is not None]
    known = {id(parameter) for parameter in phi}
    return {"theta": [parameter for parameter in parameters if id(parameter) not in known], "phi": phi}


def gradient_vectors(loss: Tensor, groups: Mapping[str, Sequence[nn.Parameter]]) -> dict[str, Tensor]:
    """The gradient as one vector for each set of parameters."""
    flat = [parameter for parameters in groups.values() for parameter in parameters]
    found = iter(torch.autograd.grad(loss, flat, allow_unused=True))
    vectors = {}
    for name, parameters in groups.items():
        parts = [
            torch.zeros_like(parameter) if gradient is None else gradient
            for parameter, gradient in zip(parameters, found, strict=False)
        ]
        vectors[name] = torch.cat([loss.new_zeros(0), *(part.flatten() for part in parts)]).double()
    return vectors
