"""Streaming mean and variance of vectors, and groups of draws whose spread gives an interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

GROUPS = 10
"""The number of groups of draws; their spread gives an interval."""


class Moments:
    """Streaming mean and variance of vectors by Welford's recursion, with at most three vectors in memory."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: Tensor | float = 0.0
        self._squares: Tensor | float = 0.0

    def add(self, vector: Tensor) -> None:
        """Add a vector."""
        self.count += 1
        deviation = vector - self.mean
        self.mean = self.mean + deviation / self.count
        self._squares = self._squares + deviation * (vector - self.mean)

    def merge(self, other: Moments) -> None:
        """Add all vectors of another instance."""
        total = self.count + other.count
        deviation = other.mean - self.mean
        self._squares = self._squares + other._squares + deviation**2 * (self.count * other.count / total)
        self.mean = self.mean + deviation * (other.count / total)
        self.count = total

    @property
    def summed_variance(self) -> float:
        """The variance, summed over components."""
        return float(torch.as_tensor(self._squares).sum()) / (self.count - 1)


def group_sizes(count: int) -> list[int]:
    """Return the number of draws in each group."""
    return [count // GROUPS + (number < count % GROUPS) for number in range(GROUPS)]


def gradient_vectors(loss: Tensor, groups: Mapping[str, Sequence[nn.Parameter]]) -> dict[str, Tensor]:
    """Return the gradient as one vector for each set of parameters."""
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
