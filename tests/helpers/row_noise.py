"""Random numbers that belong to a row: a row by itself draws what it drew among others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor


class RowNoise:
    """The random numbers of a batch of so many rows, a number that no other dimension of a draw has."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.drawn: list[Tensor] = []

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Remember all draws made inside this block."""
        self.drawn.clear()

        def record(draw: Callable[[], Tensor]) -> Tensor:
            self.drawn.append(draw().clone())
            return self.drawn[-1].clone()

        with _drawing(record):
            yield

    @contextmanager
    def of_row(self, row: int) -> Iterator[None]:
        """Make the same draws again inside this block, but only those of one row."""
        waiting = iter(self.drawn)

        def replay(draw: Callable[[], Tensor]) -> Tensor:
            numbers = next(waiting)
            (dimension,) = (place for place, size in enumerate(numbers.shape) if size == self.rows)
            found = numbers.narrow(dimension, row, 1)
            assert found.shape == draw().shape, "a row by itself draws otherwise"
            return found.clone()

        with _drawing(replay):
            yield
        assert next(waiting, None) is None, "a row by itself draws less"


@contextmanager
def _drawing(source: Callable[[Callable[[], Tensor]], Tensor]) -> Iterator[None]:
    """Let this function make the draws, given one that draws as torch does."""
    uniform, bernoulli, exponential = torch.rand, torch.bernoulli, Tensor.exponential_
    with (
        mock.patch.object(torch, "rand", lambda *size, **rest: source(lambda: uniform(*size, **rest))),
        mock.patch.object(torch, "bernoulli", lambda mean: source(lambda: bernoulli(mean))),
        mock.patch.object(Tensor, "exponential_", lambda empty: empty.copy_(source(lambda: exponential(empty)))),
    ):
        yield
