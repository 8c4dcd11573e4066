"""Every method that claims to be unbiased, against the exact gradient; and its wrong twins, which must fail.

``pytest tests/estimators/test_conformance.py -s`` prints the table.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from helpers.conformance.cases import Case, of
from helpers.conformance.comparison import CASES, MODELS, compare
from helpers.exact_expectations import RowsTouchError
from helpers.small_models import one_layer
from jsa import Batch, Estimate, Estimator, LatentVariableModel
from jsa.estimators.base import score_samples

PROOFS = [pytest.param(case, name, id=f"{case.name}, {name}") for case in CASES for name in case.examples]
TWINS = [pytest.param(case, twin, id=f"{case.name}, {twin}") for case in CASES for twin in case.twins]


@pytest.mark.parametrize(("case", "name"), PROOFS)
def test_unbiased(case: Case, name: str) -> None:
    outcome = compare(case, case.make, MODELS[name]())
    sys.stdout.write(f"\n{case.name:28} | {case.target_name:28} | {name:16} | {outcome.figures}\n")
    assert outcome.right, outcome.figures


@pytest.mark.parametrize(("case", "twin"), TWINS)
def test_wrong_twin_is_refused(case: Case, twin: str) -> None:
    name, make = case.twins[twin]
    # All draws of a twin are enumerated only if it makes as many as its case.
    outcome = compare(case, make, MODELS[name]())
    sys.stdout.write(f"\n{case.name:28} | twin: {twin:22} | {name:16} | {outcome.figures}\n")
    assert not outcome.right, outcome.figures


def test_every_unbiased_method_has_a_twin() -> None:
    proven = {case.name.split(",")[0] for case in CASES if case.twins}
    assert {case.name.split(",")[0] for case in CASES} == proven


class OtherRows(Estimator):
    """REINFORCE centered by the other rows of the batch or, wrongly, by this one too."""

    def __init__(self, wrong: bool = False) -> None:
        super().__init__()
        self.wrong = wrong

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        draws = score_samples(model, batch, 1)
        signal = draws.log_weights
        others = (signal.sum() - signal) / max(1, len(batch) - 1)
        baseline = others * signal if self.wrong else others
        loss = -((signal - baseline) * draws.log_inference + draws.log_joint).mean()
        return Estimate(loss, signal.mean(), signal, {})


def test_rows_that_know_of_each_other_are_not_enumerated_one_by_one() -> None:
    """By themselves, rows without others would let even the wrong one pass."""
    case = replace(next(case for case in CASES if case.name == "REINFORCE"), draws=1)
    for wrong in (False, True):
        with pytest.raises(RowsTouchError, match="leave draws= out"):
            compare(case, of(OtherRows, wrong=wrong), one_layer())
    assert compare(replace(case, draws=None), of(OtherRows), one_layer()).right
