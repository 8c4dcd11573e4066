"""The law of the paths that Metropolis independence sampling takes, by exact integration.

A path is a function of the proposals and of the uniforms. The proposals of a small space can be counted; and the
path changes only where a uniform passes one of the ratios w_k / w_j, so that one uniform in each piece between them
stands for the whole piece. What is left of an expectation is a finite sum, without any sampling error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from jsa.importance import multiplicities

Rule = Callable[[Tensor, Tensor], Tensor]
"""From log-weights (candidates, batch) and uniforms (moves, batch) to the path: ``independence_path``."""

Weighing = Callable[[Tensor, int], Tensor]
"""From a path and the number of candidates to the weight of each candidate."""

Paths = tuple[Tensor, Tensor, Tensor]
"""Candidates of some of the ways that things can go, their paths, and their probabilities given the start."""


def share_of_moves(path: Tensor, candidates: int) -> Tensor:
    """The share of the moves after which the chain stands at each candidate."""
    return multiplicities(path, candidates).double() / len(path)


def share_without_repeats(path: Tensor, candidates: int) -> Tensor:
    """A known-wrong twin: a state that stays is not counted again."""
    visited = (multiplicities(path, candidates) > 0).double()
    return visited / visited.sum(0)


def transition_matrix(inference: Tensor, log_weights: Tensor) -> Tensor:
    """One move by definition: T_ij = q_j min(1, w_j / w_i), and what is left on the diagonal."""
    ratio = (log_weights.unsqueeze(0) - log_weights.unsqueeze(1)).exp().clamp(max=1)
    matrix = inference.unsqueeze(0) * ratio
    matrix.fill_diagonal_(0)
    return matrix + torch.diag(1 - matrix.sum(1))


def every_path(rule: Rule, inference: Tensor, log_weights: Tensor, moves: int) -> Iterator[Paths]:
    """All starts, all proposals and all pieces of the uniforms; the probabilities of a start sum to one."""
    numbers = torch.arange(len(inference))
    candidates = torch.cartesian_prod(*[numbers] * (moves + 1)).T
    proposed = inference[candidates[1:]].prod(0)
    weights = log_weights[candidates]
    for uniforms, probability in every_piece(weights):
        yield candidates, rule(weights, uniforms), proposed * probability


def every_piece(log_weights: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Uniforms for the moves among these candidates, one in each piece, with the probabilities of the pieces."""
    edges = [_edges(log_weights[: move + 1]) for move in range(1, len(log_weights))]
    for pieces in itertools.product(*(range(len(edge) - 1) for edge in edges)):
        low = torch.stack([edge[piece] for edge, piece in zip(edges, pieces, strict=True)])
        high = torch.stack([edge[piece + 1] for edge, piece in zip(edges, pieces, strict=True)])
        yield (low + high) / 2, (high - low).prod(0)


def _edges(log_weights: Tensor) -> Tensor:
    """The ends of the pieces for the last of these candidates: its ratios to the others, sorted, with 0 and 1."""
    ratios = (log_weights[-1] - log_weights[:-1]).clamp(max=0).exp().sort(0).values
    return torch.cat([torch.zeros_like(ratios[:1]), ratios, torch.ones_like(ratios[:1])])


def kernel(rule: Rule, inference: Tensor, log_weights: Tensor, moves: int) -> Tensor:
    """The transition matrix of so many moves of the rule."""
    matrix = torch.zeros(len(inference), len(inference), dtype=torch.float64)
    for candidates, path, probability in every_path(rule, inference, log_weights, moves):
        last = candidates.gather(0, path[-1:]).squeeze(0)
        matrix.index_put_((candidates[0], last), probability, accumulate=True)
    return matrix


def expected_occupancy(
    rule: Rule, weighing: Weighing, start: Tensor, inference: Tensor, log_weights: Tensor, moves: int
) -> Tensor:
    """The expected weight of each state in the gradient, from a start that follows the given probabilities."""
    total = torch.zeros_like(inference)
    for candidates, path, probability in every_path(rule, inference, log_weights, moves):
        weight = weighing(path, moves + 1) * probability * start[candidates[0]]
        total.index_put_((candidates,), weight, accumulate=True)
    return total
