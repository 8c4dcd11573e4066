"""A method against its target: by an exact sum where that is finite, by a z-test else."""

from __future__ import annotations

from dataclasses import dataclass

from helpers.conformance import antithetic, chains, relaxed, score_function
from helpers.conformance.cases import Case, Make
from helpers.exact_expectations import expected_gradients
from helpers.gradient_checks import assert_sharp, draws_of
from helpers.methods import SMALL_MODELS
from helpers.small_models import EXAMPLES, Example, by_row, largest_difference
from jsa.testing.gradients import compared, repeated

MODELS = EXAMPLES | SMALL_MODELS
CASES: list[Case] = [*score_function.CASES, *relaxed.CASES, *antithetic.CASES, *chains.CASES]

EXACT = 1e-12
"""The largest error of an expectation that is summed up exactly."""

VISIBLE = 1e-3
"""The smallest error of a wrong twin in the same sum."""


@dataclass(frozen=True)
class Outcome:
    """How a method compares with the exact gradient."""

    right: bool
    figures: str


def compare(case: Case, make: Make, example: Example) -> Outcome:
    """Holds an estimator against the target of a case, exactly where that is a finite sum."""
    target = by_row(case.target, example.model, example.batch)
    if case.draws is not None:
        found = expected_gradients(make, example.model, example.batch, case.draws)
        error = largest_difference(found, target)
        assert not EXACT <= error <= VISIBLE, f"neither right nor clearly wrong: {error:.1e}"
        return Outcome(error < EXACT, f"exact error {error:.1e}")
    estimator = make(example.model, repeated(example.batch, case.copies))
    draws = draws_of(estimator, example, case.copies, case.repetitions)
    assert_sharp(draws, target)
    by_draws = compared(draws, target)
    figures = f"|z| {by_draws.score:.1f} (limit {by_draws.limit:.1f}), standard error {by_draws.error:.2%}"
    return Outcome(by_draws.agrees, figures)
