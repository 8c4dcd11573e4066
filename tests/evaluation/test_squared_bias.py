"""A bias is told where there is one, and noise is not taken for one."""

from __future__ import annotations

import math

import pytest
import torch

from jsa.evaluation.gradient_variance import squared_bias

GROUPS, TIMES = 10, 1_000


def found(components: int, shift: float, target_error: float = 0.0) -> list[float]:
    """What is told of the means of groups whose noise is that of a standard normal vector."""
    torch.manual_seed(components)
    squares = []
    for _ in range(TIMES):
        means = torch.randn(GROUPS, components, dtype=torch.float64) + shift
        target = torch.randn(components, dtype=torch.float64) * math.sqrt(target_error / components)
        squares.append(squared_bias([*means], target, target_error))
    return squares


def told(squares: list[float]) -> float:
    return sum(square > 0 for square in squares) / len(squares)


@pytest.mark.parametrize("components", [1, 30, 300])
@pytest.mark.parametrize("target_error", [0.0, 1.0])
def test_noise_is_seldom_taken_for_a_bias(components: int, target_error: float) -> None:
    assert told(found(components, 0.0, target_error)) < 0.03


@pytest.mark.parametrize("components", [1, 30, 300])
def test_a_distance_less_its_expected_noise_would_be(components: int) -> None:
    """The wrong twin: what is left of the noise by chance is positive about every other time."""
    torch.manual_seed(components)
    means = torch.randn(TIMES, GROUPS, components, dtype=torch.float64).mean(1)
    rest = means.square().sum(-1) - components / GROUPS
    assert (rest > 0).double().mean() > 0.25


@pytest.mark.parametrize("components", [1, 30, 300])
def test_a_bias_is_told_as_it_is(components: int) -> None:
    squares = found(components, 3.0)
    assert told(squares) > 0.99
    # The mean of all, among which the few that are told as zero hardly count.
    assert sum(squares) / TIMES == pytest.approx(9 * components, rel=0.03)


def test_the_error_of_the_target_is_taken_off() -> None:
    squares = found(30, 3.0, target_error=6.0)
    assert sum(squares) / TIMES == pytest.approx(9 * 30, rel=0.05)
