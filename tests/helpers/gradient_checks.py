"""Whether an estimator's gradient is unbiased, by the test of ``jsa.testing`` with its sharpness in every block."""

from __future__ import annotations

from helpers.small_models import Example, Gradients
from jsa import Estimator
from jsa.testing.gradients import compared, drawn_gradients

LARGEST_RELATIVE_ERROR = 0.01
"""The standard error of a parameter block may be this share of the exact gradient's norm: else nothing is tested."""

SMALLEST_NORM = 0.05
"""The exact gradient's norm in every parameter block is at least this: else the relative error says little."""


def draws_of(estimator: Estimator, example: Example, copies: int = 2_000, repetitions: int = 40) -> Gradients:
    """Gradients of so many copies of the rows of an example."""
    return drawn_gradients(estimator, example.model, example.batch, copies, repetitions)


def assert_unbiased(draws: Gradients, expected: Gradients) -> None:
    """That the mean gradient is the expected one in every parameter, and that the test is sharp."""
    assert_sharp(draws, expected)
    found = compared(draws, expected)
    assert found.agrees, f"a gradient is {found.score:.1f} standard errors off"


def assert_biased(draws: Gradients, expected: Gradients) -> None:
    """That the same test refuses the gradient."""
    assert_sharp(draws, expected)
    found = compared(draws, expected)
    assert not found.agrees, f"the bias was not seen: the largest deviation is {found.score:.1f} standard errors"


def assert_sharp(draws: Gradients, expected: Gradients) -> None:
    for name, gradient in expected.items():
        assert gradient.norm() >= SMALLEST_NORM, name
        error = compared({name: draws[name]}, {name: gradient}).error
        assert error <= LARGEST_RELATIVE_ERROR, f"the test is blunt: the standard error is {error:.1%} of a gradient"
