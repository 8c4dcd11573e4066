"""The optimiser, and what it remembers as tensors by the names of the parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from jsa.configuration import OptimiserConfig
from jsa.errors import CheckpointError


def make_optimiser(learner: nn.Module, config: OptimiserConfig) -> torch.optim.Optimizer:
    """The optimiser of all parameters that are to be learned."""
    kind = torch.optim.Adam if config.optimiser == "adam" else torch.optim.SGD
    return kind(learned(learner).values(), lr=config.learning_rate, fused=True)


def learned(learner: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are to be learned, by name, in the order in which the optimiser has them."""
    return {name: parameter for name, parameter in learner.named_parameters() if parameter.requires_grad}


def forget_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """What ``zero_grad`` does, without its hooks, which take a hundredth of the step of a small model."""
    for parameter in parameters:
        parameter.grad = None


def optimiser_tensors(learner: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What the optimiser remembers, under ``parameter/quantity``."""
    return {
        f"{name}/{quantity}": value
        for name, parameter in learned(learner).items()
        for quantity, value in optimiser.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def restore_optimiser(learner: nn.Module, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Gives an optimiser what another of the same kind remembered of the same parameters."""
    parameters = learned(learner)
    for key, value in tensors.items():
        name, _, quantity = key.rpartition("/")
        parameter = parameters.get(name)
        if parameter is None:
            raise CheckpointError(f"the optimiser of the checkpoint has a parameter {name} that this model lacks")
        if not value.is_floating_point() or (value.numel() != 1 and value.shape != parameter.shape):
            raise CheckpointError(
                f"the optimiser of the checkpoint has {quantity} of shape {tuple(value.shape)} and {value.dtype} for "
                f"{name}, which is {tuple(parameter.shape)} and {parameter.dtype} in this model"
            )
        # A copy of its own, because the next step changes it in place.
        optimiser.state[parameter][quantity] = value.to(parameter.device, copy=True)
