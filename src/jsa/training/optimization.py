"""The optimizer, and what it remembers as tensors by the names of the parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from jsa.errors import CheckpointError
from jsa.runs.config import OptimizerConfig


def make_optimizer(learner: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """The optimizer of all parameters that are to be learned."""
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.SGD
    return kind(learned(learner).values(), lr=config.learning_rate, fused=True)


def learned(learner: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are to be learned, by name, in the order in which the optimizer has them."""
    return {name: parameter for name, parameter in learner.named_parameters() if parameter.requires_grad}


def forget_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """What ``zero_grad`` does, without its hooks, which take a hundredth of the step of a small model."""
    for parameter in parameters:
        parameter.grad = None


def optimizer_tensors(learner: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What the optimizer remembers, under ``parameter/quantity``."""
    return {
        f"{name}/{quantity}": value
        for name, parameter in learned(learner).items()
        for quantity, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(learner: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Gives an optimizer what another of the same kind remembered of the same parameters."""
    parameters = learned(learner)
    for key, value in tensors.items():
        name, _, quantity = key.rpartition("/")
        parameter = parameters.get(name)
        if parameter is None:
            raise CheckpointError(f"the optimizer of the checkpoint has a parameter {name} that this model lacks")
        if not value.is_floating_point() or (value.numel() != 1 and value.shape != parameter.shape):
            raise CheckpointError(
                f"the optimizer of the checkpoint has {quantity} of shape {tuple(value.shape)} and {value.dtype} for "
                f"{name}, which is {tuple(parameter.shape)} and {parameter.dtype} in this model"
            )
        # A copy of its own, because the next step changes it in place.
        optimizer.state[parameter][quantity] = value.to(parameter.device, copy=True)


def learning_rate(config: OptimizerConfig, step: int, steps: int) -> float:
    """The learning rate of a step, counted from 0, of a run of so many steps.

    Robbins-Monro is gamma_t = a / (t + t0)^kappa with a = gamma_0 t0^kappa: for 1/2 < kappa <= 1 the steps sum to
    infinity and their squares do not, which is what the convergence theorems of stochastic approximation ask for.

    >>> config = OptimizerConfig(learning_rate=0.1, schedule="robbins-monro", schedule_offset=10, schedule_exponent=1)
    >>> [round(learning_rate(config, step, steps=100), 9) for step in (0, 10, 90)]
    [0.1, 0.05, 0.01]
    """
    match config.schedule:
        case "constant":
            return config.learning_rate
        case "cosine":
            return config.learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps))
        case "robbins-monro":
            shrunk = config.schedule_offset / (step + config.schedule_offset)
            return config.learning_rate * shrunk**config.schedule_exponent
