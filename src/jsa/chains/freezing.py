"""Chains that stand still: how many, for how long and which."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from jsa.chains.cache import ChainCache
from jsa.chains.storage import processes
from jsa.io.displays import figures_table

PASSES = (1, 5, 20)


@dataclass(frozen=True)
class FrozenChains:
    """How long the chains of a cache have stood still.

    Attributes:
        rows: The number of rows that this process visits: its share of the training data.
        visited: How many rows have a chain here.
        visits: The number of visits of this process, repeated rows included.
        shares: The share of the chains that stood still for more than 1, 5 and 20 passes through the data.
        oldest: The row numbers of the chains that stood still longest, with their ages in passes, oldest first.
    """

    rows: int
    visited: int
    visits: int
    shares: Mapping[int, float]
    oldest: tuple[tuple[int, float], ...]

    def __str__(self) -> str:
        shares = ", ".join(
            f"{share:.1%} of them for more than {_passes(passes)}" for passes, share in self.shares.items()
        )
        return f"{self.visited:,} of {self.rows:,} rows have a chain after {self.visits:,} visits; at rest {shares}"

    def _repr_html_(self) -> str:
        figures = {"rows with a chain": f"{self.visited:,} of {self.rows:,}", "visits": f"{self.visits:,}"}
        for passes, share in self.shares.items():
            figures[f"at rest for more than {_passes(passes)}"] = f"{share:.1%} of the chains"
        if self.oldest:
            row, age = self.oldest[0]
            figures["longest at rest"] = f"row {row}, for {age:.0f} passes"
        return figures_table(figures, self.warning)

    @property
    def warning(self) -> str | None:
        """A warning sentence if something is wrong with the chains, otherwise None.

        Something is wrong if most rows have no chain although there were visits enough for all, or if so many chains
        stand still that the cache is a fixed set of states.
        """
        if self.visits > 2 * self.rows > 4 * self.visited:
            return (
                f"only {self.visited} of {self.rows} rows have a chain after {self.visits} visits: give each batch the "
                "numbers of its rows in the whole data, not in the batch, see docs/how-to/other-loops.md"
            )
        for passes, limit in ((20, 0.1), (5, 0.5)):
            if self.shares[passes] > limit:
                row, age = self.oldest[0]
                return (
                    f"{self.shares[passes]:.0%} of the chains have not moved for more than {passes} passes "
                    f"(row {row} for {age:.0f}): q has lost the posterior there; take more particles or a lower "
                    "learning rate, see docs/how-to/chain-health.md"
                )
        return None


def _passes(count: int) -> str:
    return f"{count} pass{'es' * (count > 1)}"


def frozen_chains(cache: ChainCache, oldest: int = 10) -> FrozenChains:
    """Count the chains that stand still; this reads the whole cache, some rows at a time.

    Args:
        cache: The chains.
        oldest: How many of the oldest chains to name.

    Example:
        >>> from jsa import LatentSpace, Layer
        >>> cache = ChainCache(LatentSpace.of(Layer("bernoulli", 3)), rows=2)
        >>> for _ in range(30):  # row 1 stays where it is
        ...     cache.write(torch.tensor([0, 1]), torch.ones(2, 3), moved=torch.tensor([True, False]))
        >>> frozen = frozen_chains(cache)
        >>> frozen.shares[20], frozen.oldest[0]
        (0.5, (1, 29.0))
        >>> frozen.warning
        '50% of the chains have not moved for more than 20 passes (row 1 for 29): q has lost ...'
    """
    visited = 0
    counts = dict.fromkeys(PASSES, 0)
    best_rows, best_ages = torch.empty(0, dtype=torch.int64), torch.empty(0)
    for rows, ages in cache.ages():
        visited += len(rows)
        for passes in PASSES:
            counts[passes] += int((ages > passes).sum())
        candidates, candidate_ages = torch.cat([best_rows, rows.cpu()]), torch.cat([best_ages, ages.cpu()])
        # Stable, so that of equally old chains those of the lowest row numbers are named.
        order = candidate_ages.sort(descending=True, stable=True).indices[:oldest]
        best_rows, best_ages = candidates[order], candidate_ages[order]
    shares = {passes: count / visited if visited else 0.0 for passes, count in counts.items()}
    named = tuple(zip(best_rows.tolist(), best_ages.tolist(), strict=True))
    _, together = processes()
    return FrozenChains(math.ceil(cache.rows / together), visited, cache.visits // together, shares, named)
