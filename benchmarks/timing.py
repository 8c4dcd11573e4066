"""Times that are compared within one run: interleaved, repeated, and reported as ratios with their spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

ROUNDS = 5
"""Turns of each contender per pass; there are several passes."""
SECONDS_A_ROUND = 0.08


@dataclass(frozen=True)
class Spread:
    """A median with its quartiles, and the values if they are known."""

    median: float
    low: float
    high: float
    values: tuple[float, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the median and quartiles of values."""
        low, median, high = statistics.quantiles(values, n=4)
        return cls(median, low, high, tuple(values))


class Interleaved:
    """Times of several contenders, which take turns so that other load on the machine affects all alike.

    Args:
        contenders: What to time, by name.
        rounds: How many turns each has.
    """

    def __init__(self, contenders: Mapping[str, Callable[[], object]], rounds: int = ROUNDS) -> None:
        repetitions = {name: _repetitions(contender) for name, contender in contenders.items()}
        self._seconds: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(rounds):
            for name, contender in contenders.items():
                self._seconds[name].append(_time(contender, repetitions[name]))

    def seconds(self, name: str) -> float:
        """Return the median time of a contender."""
        return statistics.median(self._seconds[name])

    def ratio(self, name: str, base: str) -> Spread:
        """Return the time of a contender relative to another, turn by turn."""
        return Spread.of([a / b for a, b in zip(self._seconds[name], self._seconds[base], strict=True)])


def _repetitions(contender: Callable[[], object]) -> int:
    _time(contender, 2)
    return max(1, round(SECONDS_A_ROUND / _time(contender, 2)))


def _time(contender: Callable[[], object], repetitions: int) -> float:
    started = time.perf_counter()
    for _ in range(repetitions):
        contender()
    return (time.perf_counter() - started) / repetitions
