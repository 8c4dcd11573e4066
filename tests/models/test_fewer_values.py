"""Columns that do not take all values of their layer: the others have no probability, and what is left sums to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from helpers.small_models import Example, randomize
from jsa import Batch, BeliefNetwork, LatentSpace, Layer, StructuredPrediction, check_model
from jsa.errors import UsageError
from jsa.evaluation.codes import compact
from jsa.evaluation.imputation import impute
from jsa.evaluation.rows import TensorRows
from jsa.models.networks import IMPOSSIBLE, impossible_values

Model = BeliefNetwork | StructuredPrediction
CONTEXT = torch.tensor([1.0, 0.0, 1.0])


@dataclass(frozen=True)
class Case:
    """A model of variables that take so many values each."""

    observed: Layer
    values: tuple[int, ...]
    make: Callable[[Layer, Sequence[int] | None], Model]

    def model(self, values: Sequence[int] | None) -> Model:
        return randomize(self.make(self.observed, values), seed=1)

    def batch(self, x: Tensor) -> Batch:
        conditional = self.make is structured_prediction
        return Batch(x, torch.arange(len(x)), CONTEXT.to(x).expand(len(x), -1) if conditional else None)

    @property
    def possible(self) -> Tensor:
        """Every row that can be."""
        every = LatentSpace.of(self.observed).enumerate(torch.float64)
        numbers = compact(LatentSpace.of(self.observed), every)
        return every[(numbers < torch.tensor(self.values)).all(-1)]


def belief_network(observed: Layer, values: Sequence[int] | None) -> Model:
    latent = LatentSpace.of(Layer("bernoulli", 3), Layer("categorical", 1, 3))
    return BeliefNetwork(observed, latent, (4,), missing=True, values=values)


def structured_prediction(observed: Layer, values: Sequence[int] | None) -> Model:
    return StructuredPrediction(observed, 3, LatentSpace.of(Layer("bernoulli", 3)), (4,), missing=True, values=values)


CASES = {
    "classes": Case(Layer("categorical", 3, 4), (2, 4, 3), belief_network),
    "bits": Case(Layer("bernoulli", 4), (2, 1, 2, 2), belief_network),
    "given a context": Case(Layer("categorical", 2, 3), (3, 1), structured_prediction),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def total(case: Case, values: Sequence[int] | None) -> float:
    """The probability of all rows that can be."""
    return float(Example(case.model(values), case.batch(case.possible)).exact.log_likelihood.exp().sum())


def test_the_rows_that_can_be_have_all_probability(case: Case) -> None:
    assert total(case, case.values) == pytest.approx(1, abs=1e-12)
    assert total(case, None) < 0.9  # the twin without values gives some to others


def test_nothing_else_is_drawn_or_filled_in(case: Case) -> None:
    model, limits = case.model(case.values).float(), torch.tensor(case.values)
    space = LatentSpace.of(case.observed)
    given = case.batch(case.possible[:1].float()).context
    h = model.sample_latent((5000,), given)
    x = model.observation(h, given).sample()
    assert (compact(space, x) < limits).all()
    rows = torch.full((500, case.observed.width), torch.nan)
    contexts = None if given is None else given.expand(500, -1)
    filled = impute(model, TensorRows(rows, contexts), draw=True)
    assert (compact(space, filled.x) < limits).all()
    assert filled.x.unique(dim=0).shape[0] > 1


def test_checks_pass_and_weights_are_as_ever(case: Case) -> None:
    model = case.model(case.values).float()
    check_model(model, case.batch(case.possible.float()))
    assert set(model.state_dict()) == set(case.model(None).state_dict())


def test_all_values_are_no_restriction() -> None:
    assert impossible_values(Layer("categorical", 2, 3), [3, 3]) is None
    assert impossible_values(Layer("categorical", 2, 3), None) is None
    # Whatever a network says, in any precision.
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        assert torch.tensor([0.0, 50.0 + IMPOSSIBLE], dtype=dtype).softmax(-1).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("layer", "values"),
    [
        *((Layer("categorical", 2, 3), values) for values in ([3, 4], [0, 3], [2], [3], [3, 3, 3])),
        (Layer("bernoulli", 2), [3, 1]),
        (Layer("gaussian", 2), [2, 1]),
    ],
)
def test_values_that_a_layer_does_not_have_are_refused(layer: Layer, values: list[int]) -> None:
    with pytest.raises(
        UsageError, match=r"values must be 2 numbers from 1 to [23] for a layer of 2 bits or variables of"
    ):
        BeliefNetwork(layer, LatentSpace.of(Layer("bernoulli", 2)), values=values)
