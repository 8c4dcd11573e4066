"""Mean and variance of vectors that come one by one, and the groups whose spread tells how sure they are."""

from __future__ import annotations

import torch
from torch import Tensor

GROUPS = 10
"""What is drawn is divided into so many groups, whose spread gives an interval."""


class Moments:
    """Mean and variance of vectors that come one by one, by Welford's recursion: never more than three of them."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: Tensor | float = 0.0
        self._squares: Tensor | float = 0.0

    def add(self, vector: Tensor) -> None:
        """Takes one more vector."""
        self.count += 1
        deviation = vector - self.mean
        self.mean = self.mean + deviation / self.count
        self._squares = self._squares + deviation * (vector - self.mean)

    def merge(self, other: Moments) -> None:
        """Takes all vectors that another one has seen."""
        total = self.count + other.count
        deviation = other.mean - self.mean
        self._squares = self._squares + other._squares + deviation**2 * (self.count * other.count / total)
        self.mean = self.mean + deviation * (other.count / total)
        self.count = total

    @property
    def summed_variance(self) -> float:
        """The sum over components of the variance."""
        return float(torch.as_tensor(self._squares).sum()) / (self.count - 1)


def group_sizes(count: int) -> list[int]:
    """How many of so many draws are in each group."""
    return [count // GROUPS + (number < count % GROUPS) for number in range(GROUPS)]
