"""Pure functions of log-weights and of noise that is given: exact to test, the same on every device.

Log-weights have the candidates in the first dimension and the data in the second: log p(x, h) - log q(h | x).
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor


def independence_path(
    log_weights: Float[Tensor, "candidates batch"], uniforms: Float[Tensor, "moves batch"]
) -> Int64[Tensor, "moves batch"]:
    """The states that Metropolis independence sampling visits.

    Candidate 0 is where the chain stands, the others are its proposals in order. Proposal k is accepted with
    probability min(1, w_k / w_current), and an accepted proposal's weight becomes the current one: comparing with
    the first weight instead gives a chain with another invariant distribution.

    Returns:
        For each move, the number of the candidate at which the chain stands after it.

    Example:
        >>> log_weights = torch.tensor([[0.0], [2.0], [1.0]])
        >>> independence_path(log_weights, torch.tensor([[0.9], [0.9]])).flatten()  # 1 accepted, 2 refused
        tensor([1, 1])
    """
    log_uniforms = uniforms.log()
    current = log_weights[0]
    state = torch.zeros_like(current, dtype=torch.int64)
    path = []
    for move, proposed in enumerate(log_weights[1:]):
        # Written as a sum, two weights of zero (minus infinity) compare as a refusal and not as NaN.
        accepted = log_uniforms[move] + current < proposed
        current = torch.where(accepted, proposed, current)
        state = torch.where(accepted, move + 1, state)
        path.append(state)
    return torch.stack(path)


def multiplicities(path: Int64[Tensor, "moves batch"], candidates: int) -> Int64[Tensor, "candidates batch"]:
    """How often each candidate is visited: a state that stays is counted again.

    >>> multiplicities(torch.tensor([[1], [1], [3]]), candidates=4).flatten()
    tensor([0, 2, 0, 1])
    """
    counts = path.new_zeros(candidates, path.shape[1])
    return counts.scatter_add_(0, path, torch.ones_like(path))


def acceptances(path: Int64[Tensor, "moves batch"]) -> Int64[Tensor, " batch"]:
    """How many of the moves were accepted, for each chain.

    >>> acceptances(torch.tensor([[0, 1], [0, 2]]))
    tensor([0, 2])
    """
    before = torch.cat([torch.zeros_like(path[:1]), path[:-1]])
    return (path != before).sum(0)


def effective_sample_size(log_weights: Float[Tensor, "samples *batch"]) -> Float[Tensor, "*batch"]:
    """Kish's effective sample size (sum w)^2 / sum w^2: how many equally weighted samples these are worth.

    >>> effective_sample_size(torch.zeros(4, 1))
    tensor([4.])
    """
    return (2 * torch.logsumexp(log_weights, 0) - torch.logsumexp(2 * log_weights, 0)).exp()


def log_mean_weight(log_weights: Float[Tensor, "samples *batch"]) -> Float[Tensor, "*batch"]:
    """The logarithm of the mean weight: the importance-sampling estimate of log p(x).

    >>> log_mean_weight(torch.tensor([[0.0], [0.0]]))
    tensor([0.])
    """
    return torch.logsumexp(log_weights, 0) - math.log(log_weights.shape[0])
