"""The states that the gradient of a method with chains uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from jsa.errors import UsageError, unknown_name
from jsa.importance import occupancy
from jsa.kernels import Kernel, Trajectory

Gradient = Literal["last", "visited", "rao-blackwell", "conditional-importance"]

Weights = Float[Tensor, "candidates batch"]


def last(moves: Trajectory) -> Weights:
    """Return weight one for the final state of each chain."""
    return torch.zeros_like(moves.log_weights).scatter_(0, moves.path[-1:], 1)


def visited(moves: Trajectory) -> Weights:
    """Return the share of moves after which the chain was at each candidate."""
    return moves.multiplicities.to(moves.log_weights.dtype) / len(moves.path)


def rao_blackwell(moves: Trajectory) -> Weights:
    """Return the expected share of moves after which the chain is at each candidate."""
    return occupancy(moves.log_weights)


def conditional_importance(moves: Trajectory) -> Weights:
    """Return the normalized weights of the state and the proposals."""
    return moves.log_weights.softmax(0)


_CHOICES: dict[Gradient, Callable[[Trajectory], Weights]] = {
    "last": last,
    "visited": visited,
    "rao-blackwell": rao_blackwell,
    "conditional-importance": conditional_importance,
}
_OF_INDEPENDENT_DRAWS = ("rao-blackwell", "conditional-importance")


def check_gradient(gradient: Gradient, kernel: Kernel) -> Gradient:
    """Return the choice of states, or refuse one that does not exist or is wrong with this kernel."""
    if gradient not in get_args(Gradient):
        raise unknown_name("choice of states for the gradient", str(gradient), get_args(Gradient))
    if gradient in _OF_INDEPENDENT_DRAWS and not kernel.independent:
        raise UsageError(
            f"the gradient {gradient} weighs independent draws of q, which {kernel!r} does not propose: use "
            "gradient='last' or gradient='visited', or a kernel of Independence() alone"
        )
    return gradient


def shares(gradient: Gradient, moves: Trajectory) -> Weights:
    """Return how much each candidate counts in the gradient; the weights of a row sum to one."""
    return _CHOICES[gradient](moves)
