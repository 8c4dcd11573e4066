"""Every method that claims to be unbiased, against the exact gradient; and its wrong twins, which must fail.

``pytest tests/estimators/test_conformance.py -s`` prints the table.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest
import torch

from conformance import antithetic, chains, relaxed, score_function
from conformance.cases import Case, Make
from exact_expectations import expected_gradients, largest_difference
from gradient_checks import assert_sharp, gradient_draws, largest_score, limit, relative_error
from jsa import PersistentEstimator
from small_models import EXAMPLES, enumerated, repeated

CASES: list[Case] = [*score_function.CASES, *relaxed.CASES, *antithetic.CASES, *chains.CASES]

PROOFS = [pytest.param(case, name, id=f"{case.name}, {name}") for case in CASES for name in case.examples]
TWINS = [
    pytest.param(case, twin, id=f"{case.name}, {twin}")  # a line a twin
    for case in CASES
    for twin in case.twins
]


EXACT = 1e-12
"""The largest error of an expectation that is summed up exactly."""

VISIBLE = 1e-3
"""The smallest error of a wrong twin in the same sum."""


@dataclass(frozen=True)
class Outcome:
    """How a method compares with the exact gradient."""

    right: bool
    figures: str


def compare(case: Case, make: Make, name: str) -> Outcome:
    """Holds an estimator against the target of a case, exactly where that is a finite sum."""
    example = EXAMPLES[name]()
    target = case.target(example.model, example.batch)
    if case.draws is not None:
        found = expected_gradients(make, example.model, example.batch, case.draws)
        error = largest_difference(found, target)
        assert not EXACT <= error <= VISIBLE, f"neither right nor clearly wrong: {error:.1e}"
        return Outcome(error < EXACT, f"exact error {error:.1e}")
    batch = repeated(example.batch, case.copies)
    estimator = make(example.model, batch)
    exact = None
    if isinstance(estimator, PersistentEstimator):
        with torch.no_grad():
            exact = enumerated(example.model, example.batch)
    draws = gradient_draws(estimator, example.model, batch, case.repetitions, exact)
    assert_sharp(draws, target)
    score, allowed = largest_score(draws, target), limit(draws)
    figures = f"|z| {score:.1f} (limit {allowed:.1f}), standard error {relative_error(draws, target):.2%}"
    return Outcome(score < allowed, figures)


@pytest.mark.parametrize(("case", "name"), PROOFS)
def test_unbiased(case: Case, name: str) -> None:
    outcome = compare(case, case.make, name)
    sys.stdout.write(f"\n{case.name:28} | {case.target_name:28} | {name:16} | {outcome.figures}\n")
    assert outcome.right, outcome.figures


@pytest.mark.parametrize(("case", "twin"), TWINS)
def test_wrong_twin_is_refused(case: Case, twin: str) -> None:
    name, make = case.twins[twin]
    # All draws of a twin are enumerated only if it makes as many as its case.
    outcome = compare(case, make, name)
    sys.stdout.write(f"\n{case.name:28} | twin: {twin:22} | {name:16} | {outcome.figures}\n")
    assert not outcome.right, outcome.figures


def test_every_unbiased_method_has_a_twin() -> None:
    proven = {case.name.split(",")[0] for case in CASES if case.twins}
    assert {case.name.split(",")[0] for case in CASES} == proven
