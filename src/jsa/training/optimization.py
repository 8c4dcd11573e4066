"""The optimizer, its learning rate, and its state by the names of the parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from jsa.errors import CheckpointError
from jsa.training.config import OptimizerConfig


def make_optimizer(learner: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """Make the optimizer of all parameters that are learned."""
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.SGD
    return kind(learned(learner).values(), lr=config.learning_rate, fused=True)


def learned(learner: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that are learned, by name, in the order in which the optimizer has them."""
    return {name: parameter for name, parameter in learner.named_parameters() if parameter.requires_grad}


def forget_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Set gradients to None without the hooks of ``zero_grad``, which take a hundredth of a small model's step."""
    for parameter in parameters:
        parameter.grad = None


def optimizer_tensors(learner: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the tensors of the optimizer's state, under ``parameter/quantity``."""
    return {
        f"{name}/{quantity}": value
        for name, parameter in learned(learner).items()
        for quantity, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(learner: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give an optimizer the state of another of the same kind for the same parameters."""
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


ROBBINS_MONRO_OFFSET, ROBBINS_MONRO_EXPONENT = 1000.0, 0.75


def learning_rate(config: OptimizerConfig, step: int, steps: int) -> float:
    """Return the learning rate of a step, counted from 0, in a training of ``steps`` steps.

    Robbins-Monro is gamma_t = a / (t + t0)^kappa with a = gamma_0 t0^kappa: for 1/2 < kappa <= 1 the steps sum to
    infinity and their squares do not, which is what the convergence theorems of stochastic approximation ask for.

    >>> config = OptimizerConfig(learning_rate=0.1, schedule="robbins-monro")
    >>> [round(learning_rate(config, step, steps=20_000), 6) for step in (0, 1000, 15_000)]
    [0.1, 0.05946, 0.0125]
    """
    match config.schedule:
        case "constant":
            return config.learning_rate
        case "cosine":
            return config.learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps))
        case "robbins-monro":
            shrunk = ROBBINS_MONRO_OFFSET / (step + ROBBINS_MONRO_OFFSET)
            return config.learning_rate * shrunk**ROBBINS_MONRO_EXPONENT
