"""The optimizer, its learning rate, and its state by the names of the parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn

from jsa.errors import CheckpointError, UsageError
from jsa.training.config import OptimizerConfig

MakeOptimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]
"""Makes an optimizer of parameters, as the classes of ``torch.optim`` do."""


def make_optimizer(
    learner: nn.Module, config: OptimizerConfig, own: MakeOptimizer | None = None
) -> torch.optim.Optimizer:
    """Make the optimizer of all parameters that are learned: that of a configuration, or one's own if it is given."""
    parameters = learned(learner)
    if own is None:
        kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.SGD
        return kind(parameters.values(), lr=config.learning_rate, fused=True)
    optimizer = own(list(parameters.values()))
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise UsageError(f"optimizer returned {type(optimizer).__name__}: return a torch.optim.Optimizer")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise UsageError("LBFGS evaluates a step several times, in which chains would move: choose another optimizer")
    taken = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    for name, parameter in parameters.items():
        if id(parameter) not in taken:
            raise UsageError(
                f"the optimizer leaves out {name}: give it all parameters that optimizer is called with, and set "
                "requires_grad = False on those that are to stay as they are"
            )
    return optimizer


def learned(learner: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that are learned, by name, in the order in which the optimizer has them."""
    return {name: parameter for name, parameter in learner.named_parameters() if parameter.requires_grad}


def forget_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Set gradients to None without the hooks of ``zero_grad``, which take a hundredth of a small model's step."""
    for parameter in parameters:
        parameter.grad = None


NUMBER = ":number"
"""Ends the name of a quantity that an optimizer keeps as a Python number."""


def described(optimizer: torch.optim.Optimizer) -> str:
    """Return the kind and the settings of an optimizer, but for learning rates, which may change.

    >>> described(torch.optim.SGD([nn.Parameter(torch.zeros(2))], lr=0.1, momentum=0.9)).partition(", ")[0]
    'SGD of 1 parameters (momentum=0.9'
    """
    groups = [
        f"{len(group['params'])} parameters ("
        + ", ".join(f"{name}={value}" for name, value in group.items() if name not in ("params", "lr", "initial_lr"))
        + ")"
        for group in optimizer.param_groups
    ]
    return f"{type(optimizer).__name__} of {' and '.join(groups)}"


def optimizer_tensors(learner: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's state as tensors, under ``parameter/quantity``."""
    found = {}
    for name, parameter in learned(learner).items():
        for quantity, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                found[f"{name}/{quantity}"] = value
            elif isinstance(value, int | float):
                kind = torch.float64 if isinstance(value, float) else torch.int64
                found[f"{name}/{quantity}{NUMBER}"] = torch.tensor(value, dtype=kind)
            # None stands for what is not used.
            elif value is not None:
                raise CheckpointError(
                    f"{type(optimizer).__name__} keeps a {type(value).__name__} {quantity} for {name}, which no "
                    "checkpoint can hold: choose another optimizer"
                )
    return found


def restore_optimizer(learner: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give an optimizer the state of another of the same kind for the same parameters."""
    parameters = learned(learner)
    for key, value in tensors.items():
        name, _, quantity = key.rpartition("/")
        parameter = parameters.get(name)
        if parameter is None:
            raise CheckpointError(f"the optimizer of the checkpoint has a parameter {name} that this model lacks")
        if value.numel() != 1 and value.shape != parameter.shape:
            raise CheckpointError(
                f"the optimizer of the checkpoint has {quantity} of shape {tuple(value.shape)} and {value.dtype} for "
                f"{name}, which is {tuple(parameter.shape)} and {parameter.dtype} in this model"
            )
        # A copy of its own, because the next step changes it in place.
        kept = value.item() if quantity.endswith(NUMBER) else value.to(parameter.device, copy=True)
        optimizer.state[parameter][quantity.removesuffix(NUMBER)] = kept


ROBBINS_MONRO_OFFSET, ROBBINS_MONRO_EXPONENT = 1000.0, 0.75


def learning_rate_share(config: OptimizerConfig, step: int, steps: int) -> float:
    """Return the share of the initial learning rate that a step has, counted from 0, in a training of ``steps`` steps.

    Robbins-Monro is gamma_t = a / (t + t0)^kappa with a = gamma_0 t0^kappa: for 1/2 < kappa <= 1 the steps sum to
    infinity and their squares do not, which is what the convergence theorems of stochastic approximation ask for.

    >>> config = OptimizerConfig(schedule="robbins-monro")
    >>> [round(learning_rate_share(config, step, steps=20_000), 4) for step in (0, 1000, 15_000)]
    [1.0, 0.5946, 0.125]
    """
    match config.schedule:
        case "constant":
            return 1.0
        case "cosine":
            return 0.5 * (1 + math.cos(math.pi * step / steps))
        case "robbins-monro":
            return (ROBBINS_MONRO_OFFSET / (step + ROBBINS_MONRO_OFFSET)) ** ROBBINS_MONRO_EXPONENT
