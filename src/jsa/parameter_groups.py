"""Which parameters belong to the model, theta, and which to the inference model, phi."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from jsa.batch import Batch
from jsa.errors import UsageError
from jsa.model import LatentVariableModel
from jsa.model_calls import posterior_of
from jsa.torch_contexts import leaving_no_trace


@torch.enable_grad()
def parameter_groups(model: LatentVariableModel, batch: Batch) -> dict[str, list[nn.Parameter]]:
    """Return the parameters of the inference model, phi: those on which log q depends, and all others, theta.

    Frozen parameters are in neither. A parameter that p and q share is in phi. One that neither of them reaches is in
    theta: it may learn from another batch, or from another loss. Asking changes nothing of the model.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise UsageError("no parameter of the model has a gradient: unfreeze some with requires_grad_()")
    reached: Sequence[Tensor | None] = [None] * len(parameters)
    with leaving_no_trace(model, batch.x.device):
        # Where everything is known, log q depends on nothing.
        _, log_inference = posterior_of(model, batch.with_nothing_known()).sample_with_log_prob((1,))
        if log_inference.requires_grad:
            reached = torch.autograd.grad(log_inference.sum(), parameters, allow_unused=True)
    phi = [parameter for parameter, gradient in zip(parameters, reached, strict=True) if gradient is not None]
    known = {id(parameter) for parameter in phi}
    return {"theta": [parameter for parameter in parameters if id(parameter) not in known], "phi": phi}
