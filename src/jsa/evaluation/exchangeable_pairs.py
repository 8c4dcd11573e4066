"""Tests of whether two states can change places, as a draw and its update by a reversible kernel can."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

TAIL = 3.18
"""A sum of numbers with fair random signs exceeds any multiple of its standard deviation at most this many times as
often as a normal variable does."""

COLUMNS_PAIRED = 256
"""So many columns, the first ones, are multiplied with all others."""


@dataclass(frozen=True)
class ExchangeablePairs:
    r"""Independent pairs of states (old, new), of which each is as probable as (new, old) under the null hypothesis.

    Every statistic is a sum over pairs of numbers :math:`a_i` that change their sign when the two change places:

    .. math:: z = \sum_i a_i / \sqrt{\textstyle\sum_i a_i^2}

    Given the sizes of these numbers, their signs are fair and independent, whatever the states are and however rarely
    they change. So z is nearly a standard normal variable, and exceeds a limit at most ``TAIL`` times as often.

    Attributes:
        old: The states drawn.
        new: What they became.
        rise: By how much the logarithm of the probability rose.
        gains: What each variable contributed to that, from -1 to 1; None if they were not updated one by one.
        numbers: The numbers of the old and new states among all states; None if these cannot be enumerated.

    References:
        V. Bentkus and D. Dzindzalieta, A tight Gaussian bound for weighted sums of Rademacher random variables,
        Bernoulli 21, 2015.
    """

    old: Float64[Tensor, "pairs width"]
    new: Float64[Tensor, "pairs width"]
    rise: Float64[Tensor, " pairs"]
    gains: Float64[Tensor, "pairs variables"] | None = None
    numbers: tuple[Int64[Tensor, " pairs"], Int64[Tensor, " pairs"]] | None = None

    @cached_property
    def statistics(self) -> dict[str, Float64[Tensor, " tests"]]:
        """Return z by what is compared, the most specific first."""
        families = {"value": _scores(self.new - self.old)}
        if self.gains is not None:
            families["gain"] = _scores(self.gains)
        families["product"] = _score(*_products(self.old, self.new)).flatten()
        if self.numbers is not None:
            families["state"] = _scores_of_counts(*self.numbers)
        families["whole"] = self._of_the_whole()
        return families

    def finding(self, rate: float) -> Finding | None:
        """Return the most specific difference that at most this share of all right models would show.

        Every family of statistics has an equal part of the rate, and so has each statistic of a family (Bonferroni).
        """
        for family, z in self.statistics.items():
            probabilities = TAIL * p_values(z) * len(z) * len(self.statistics)
            if bool((probabilities < rate).any()):
                worst = int(z.abs().argmax())
                return Finding(family, worst, float(z[worst]), int((probabilities < rate).sum()))
        return None

    def _of_the_whole(self) -> Float64[Tensor, " tests"]:
        """Return z of the rise, and of sums of values and of products with weights from the first half of the pairs."""
        half = len(self.old) // 2
        change = self.new - self.old
        by_value = change[half:] @ _weights(change[:half].sum(0), change[:half].square().sum(0))
        weights = _weights(*_products(self.old[:half], self.new[:half]))
        old, new = (((h[half:] @ weights.T) * _paired(h[half:])).sum(-1) for h in (self.old, self.new))
        # The tangent keeps a few large rises from outweighing all others.
        sums = (self.rise, (self.rise / 2).tanh(), by_value, new - old)
        return torch.cat([_scores(one.unsqueeze(-1)) for one in sums])


@dataclass(frozen=True)
class Finding:
    """What is different in old and new states.

    Attributes:
        family: The family of the statistic.
        number: Its number in the family.
        score: Its value, as a number of standard deviations.
        count: How many of the family are this improbable.
    """

    family: str
    number: int
    score: float
    count: int


def p_values(z: Float64[Tensor, " tests"]) -> Float64[Tensor, " tests"]:
    """Return how probable it is that a standard normal variable is at least as far from 0."""
    return torch.special.erfc(z.abs() / 2**0.5)


def _paired(h: Float[Tensor, "pairs width"]) -> Float[Tensor, "pairs columns"]:
    return h[:, :COLUMNS_PAIRED]


def _products(
    old: Float64[Tensor, "pairs width"], new: Float64[Tensor, "pairs width"]
) -> tuple[Float64[Tensor, "columns width"], Float64[Tensor, "columns width"]]:
    """Return the sums over pairs of the change of each product of two columns, and of its square."""
    # Single precision takes half the time and is exact for bits and classes.
    old, new = old.float(), new.float()
    both = old * new
    change = _paired(new).T @ new - _paired(old).T @ old
    squares = sum(_paired(part.square()).T @ part.square() for part in (old, new)) - 2 * _paired(both).T @ both
    # What rounding leaves where nothing changed is no change.
    return change.double(), squares.where(squares > 1e-5 * len(old), 0).double()


def _weights(total: Float64[Tensor, "*tests"], squares: Float64[Tensor, "*tests"]) -> Float64[Tensor, "*tests"]:
    return (total / squares).where(squares > 0, 0)


def _scores(changes: Float64[Tensor, "pairs tests"]) -> Float64[Tensor, " tests"]:
    return _score(changes.sum(0), changes.square().sum(0))


def _score(total: Float64[Tensor, "*tests"], squares: Float64[Tensor, "*tests"]) -> Float64[Tensor, "*tests"]:
    return (total / squares.sqrt()).where(squares > 0, 0)


def _scores_of_counts(old: Int64[Tensor, " pairs"], new: Int64[Tensor, " pairs"]) -> Float64[Tensor, " tests"]:
    """Return z of how often each state is among the new ones instead of the old ones."""
    moved, states = old != new, int(torch.maximum(old, new).max()) + 1
    before, after = (torch.bincount(number[moved], minlength=states).double() for number in (old, new))
    return _score(after - before, after + before)
