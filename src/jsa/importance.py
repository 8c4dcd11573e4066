"""Pure functions of log-weights and given noise: they can be tested exactly, and are the same on every device.

Log-weights log p(x, h) - log q(h | x) have the candidates in the first dimension and the rows in the second.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor


def independence_path(
    log_weights: Float[Tensor, "candidates batch"], uniforms: Float[Tensor, "moves batch"]
) -> Int64[Tensor, "moves batch"]:
    """Return the states that Metropolis independence sampling visits.

    Candidate 0 is the state of the chain, the others are its proposals in order. Proposal k is accepted with
    probability min(1, w_k / w_current), and its weight then becomes the current one: comparing with the first weight
    instead would give a chain with another invariant distribution.

    Returns:
        For each move, the number of the candidate at which the chain is after it.

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
        # Written as a sum, two weights of zero (minus infinity) compare as a rejection and not as NaN.
        accepted = log_uniforms[move] + current < proposed
        current = torch.where(accepted, proposed, current)
        state = torch.where(accepted, move + 1, state)
        path.append(state)
    return torch.stack(path)


def multiplicities(path: Int64[Tensor, "moves batch"], candidates: int) -> Int64[Tensor, "candidates batch"]:
    """Count the visits to each candidate: a state that stays is counted again.

    >>> multiplicities(torch.tensor([[1], [1], [3]]), candidates=4).flatten()
    tensor([0, 2, 0, 1])
    """
    counts = path.new_zeros(candidates, path.shape[1])
    return counts.scatter_add_(0, path, torch.ones_like(path))


def acceptances(path: Int64[Tensor, "moves batch"]) -> Int64[Tensor, " batch"]:
    """Count the accepted moves of each chain.

    >>> acceptances(torch.tensor([[0, 1], [0, 2]]))
    tensor([0, 2])
    """
    before = torch.cat([torch.zeros_like(path[:1]), path[:-1]])
    return (path != before).sum(0)


def effective_sample_size(log_weights: Float[Tensor, "samples *batch"]) -> Float[Tensor, "*batch"]:
    """Return Kish's effective sample size (sum w)^2 / sum w^2: how many equally weighted samples these are worth.

    >>> effective_sample_size(torch.zeros(4, 1))
    tensor([4.])
    """
    # If no sample has any weight, the normalized weights are NaN and the samples are worth nothing.
    return log_weights.softmax(0).square().sum(0).reciprocal().nan_to_num(nan=0.0)


def cached_state_win_rate(log_weights: Float[Tensor, "candidates batch"]) -> Float[Tensor, ""]:
    """Return the share of chains whose state, candidate 0, outweighs their first proposal; equal weights count half.

    For h_0 from the posterior and h_1 from q its expectation is at least one half, because the expectation of
    (w_0 - w_1) [w_0 > w_1] under two draws of q is not negative. If it stays below, the states are worse than fresh
    draws: they belong to other rows, or to parameters of long ago.

    >>> cached_state_win_rate(torch.tensor([[2.0, 0.0, 1.0, 0.0], [1.0, 0.0, 3.0, 1.0]]))
    tensor(0.3750)
    """
    own, proposed = log_weights[0], log_weights[1]
    return ((own > proposed).to(own.dtype).mean() + (own >= proposed).to(own.dtype).mean()) / 2


def log_mean_weight(log_weights: Float[Tensor, "samples *batch"]) -> Float[Tensor, "*batch"]:
    """Return the logarithm of the mean weight: the importance-sampling estimate of log p(x).

    >>> log_mean_weight(torch.tensor([[0.0], [0.0]]))
    tensor([0.])
    """
    return torch.logsumexp(log_weights, 0) - math.log(log_weights.shape[0])


def leave_one_out_bounds(log_weights: Float[Tensor, "samples batch"]) -> Float[Tensor, "samples batch"]:
    """Return, for each sample, the log mean weight with its log-weight replaced by the mean of the others'.

    >>> leave_one_out_bounds(torch.tensor([[0.0], [2.0]])).flatten()
    tensor([2., 0.])
    """
    samples = log_weights.shape[0]
    own = torch.eye(samples, dtype=torch.bool, device=log_weights.device).unsqueeze(-1)
    # A sum over the others: subtracting a log-weight of minus infinity from the total would give NaN.
    others = torch.where(own, 0, log_weights.unsqueeze(0)).sum(1) / (samples - 1)
    return log_mean_weight(torch.where(own, others.unsqueeze(0), log_weights.unsqueeze(1)))


def occupancy(log_weights: Float[Tensor, "candidates batch"]) -> Float[Tensor, "candidates batch"]:
    """Return the expected share of moves after which Metropolis independence sampling is at each candidate.

    The expectation is over the acceptances, given candidates and weights: the Rao-Blackwellized multiplicities.

    >>> occupancy(torch.tensor([[0.0], [0.0], [-torch.inf]])).flatten()  # 1 is accepted, 2 never
    tensor([0., 1., 0.])
    """
    candidates = log_weights.shape[0]
    here = torch.zeros_like(log_weights)
    here[0] = 1
    total = torch.zeros_like(log_weights)
    for move in range(1, candidates):
        proposed = log_weights[move]
        accepted = (proposed - log_weights[:move]).clamp_max(0).exp()
        # A proposal of weight zero is rejected, even if the current state has no weight either.
        accepted = accepted.where(proposed > -torch.inf, 0)
        here[move] = (here[:move] * accepted).sum(0)
        here[:move] *= 1 - accepted
        total[: move + 1] += here[: move + 1]
    return total / (candidates - 1)
