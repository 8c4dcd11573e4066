"""Every method that claims to be unbiased, against the exact gradient; and its wrong twins, which must fail.

``pytest tests/estimators/test_conformance.py -s`` prints the table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest
import torch

from helpers.conformance.cases import Case, of
from helpers.conformance.comparison import CASES, MODELS, compare
from helpers.exact_expectations import RowsTouchError
from helpers.known_rows import with_known
from helpers.missing_rows import with_gaps
from helpers.small_models import Example, one_layer
from helpers.wrong_weights import DividedBySum, UnweightedPhi
from jsa import Batch, Estimate, Estimator, LatentVariableModel
from jsa.estimators.base import score_samples

WITH_WEIGHTS = ("JSA", "REBAR", "DisARM")
"""The methods whose rows are weighted here, besides those that are compared exactly; test_weights.py has all others."""

WITH_GAPS = ("JSA", "NVIL", "RELAX")
"""The methods with a chain, or that look at x beside the model."""


def with_weights() -> Example:
    """Rows that count as often as their weights say. The weights do not have mean one, as those of a batch need not."""
    example = one_layer()
    return Example(example.model, replace(example.batch, weight=torch.tensor([2.0, 0.5, 0.0], dtype=torch.float64)))


def proofs() -> Iterator[object]:
    for case in CASES:
        rows: dict[str, Callable[[], Example]] = {name: MODELS[name] for name in case.examples}
        # Latents that are known, at the deepest model that the method takes.
        deepest = [name for name in ("two-layers", "categorical") if name in rows]
        rows |= {f"{name}, known": partial(with_known, name) for name in deepest[:1]}
        if case.name in WITH_GAPS:
            rows["one-layer, gaps"] = partial(with_gaps, "one-layer")
        if case.name in WITH_WEIGHTS or case.draws is not None:
            rows["one-layer, weights"] = with_weights
        yield from (pytest.param(case, name, make, id=f"{case.name}, {name}") for name, make in rows.items())


TWINS = [pytest.param(case, twin, id=f"{case.name}, {twin}") for case in CASES for twin in case.twins]


@pytest.mark.parametrize(("case", "name", "make"), list(proofs()))
def test_unbiased(case: Case, name: str, make: Callable[[], Example]) -> None:
    outcome = compare(case, case.make, make())
    sys.stdout.write(f"\n{case.name:28} | {case.target_name:28} | {name:16} | {outcome.figures}\n")
    assert outcome.right, outcome.figures


@pytest.mark.parametrize(("case", "twin"), TWINS)
def test_wrong_twin_is_refused(case: Case, twin: str) -> None:
    name, make = case.twins[twin]
    # All draws of a twin are enumerated only if it makes as many as its case.
    outcome = compare(case, make, MODELS[name]())
    sys.stdout.write(f"\n{case.name:28} | twin: {twin:22} | {name:16} | {outcome.figures}\n")
    assert not outcome.right, outcome.figures


@pytest.mark.parametrize("name", ["REINFORCE", "JSA"])
@pytest.mark.parametrize("twin", [DividedBySum, UnweightedPhi])
def test_wrong_weights_are_refused(name: str, twin: type[DividedBySum]) -> None:
    case = next(case for case in CASES if case.name == name)
    outcome = compare(case, lambda model, batch: twin(case.make(model, batch)), with_weights())
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
