"""Weights of rows: the loss of a batch is the sum of weight times the row's loss, divided by the number of rows."""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from helpers.known_rows import with_known
from helpers.methods import PAIRS, SMALL_MODELS, Options, estimator_of, models_of
from helpers.row_noise import RowNoise
from helpers.wrong_weights import DividedBySum, UnweightedPhi
from jsa import Batch, Estimator, LatentVariableModel, Learner, supervised_loss
from jsa.batch import TakenBatch
from jsa.errors import UsageError
from jsa.estimators import reweighted_wake_sleep
from jsa.estimators.base import mean_signal

ROWS = 7
"""The rows of a batch. No draw has so many samples, variables or classes."""

WEIGHTS = torch.tensor([2.0, 0.5, 0.0, 1.0, 3.0, 0.25, 4.0], dtype=torch.float64)
"""Their sum is not the number of rows, so that dividing by the one or by the other can be told apart."""

EXACT, VISIBLE = 1e-12, 1e-3
"""The largest deviation of what is right and the smallest of what is wrong, of the size of the gradient."""

SLEEP = [("rws", model, {"sleep": 1}) for model in ("two-layers", "conditional")]


@dataclass
class Pair:
    """A method and a small model with some rows, over and over."""

    name: str
    model: LatentVariableModel
    batch: Batch
    estimator: Estimator

    @classmethod
    def of(cls, name: str, model: str, options: Options) -> Pair:
        example = SMALL_MODELS[model]()
        taken = example.batch.take(torch.arange(ROWS) % len(example.batch))
        batch = Batch(taken.x, torch.arange(ROWS), taken.context)
        estimator = estimator_of(name, example.model, batch, **options)
        if estimator.chains is not None:
            estimator.stage = 2
            estimator(example.model, batch)
        return cls(name, example.model, batch, estimator)

    def gradient(self, estimator: Estimator, batch: Batch) -> tuple[Tensor, Tensor]:
        """The gradient of a batch in every parameter as one vector, and the objective."""
        # A step changes what is remembered, and nothing here may depend on an earlier step.
        estimator = copy.deepcopy(estimator)
        estimate = estimator(self.model, batch)
        parameters = [*self.model.parameters(), *estimator.parameters()]
        found = torch.autograd.grad(estimate.loss, parameters)
        return torch.cat([gradient.flatten() for gradient in found]), estimate.objective


def pairs(chosen: list[tuple[str, str, Options]]) -> pytest.MarkDecorator:
    ids = [
        ", ".join([name, model, *(f"{key}={value}" for key, value in options.items())])
        for name, model, options in chosen
    ]
    return pytest.mark.parametrize("pair", chosen, ids=ids, indirect=True)


@pytest.fixture
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair.of(*request.param)


EVERY = pairs([*PAIRS, *SLEEP])
METHOD = pairs([*(pair for pair in PAIRS if pair[1] == models_of(pair[0])[0]), *SLEEP])


def deviation(pair: Pair, estimator: Estimator, weights: Tensor) -> float:
    """How far the gradient and objective of a weighted batch are from the weighted sum of those of its rows alone."""
    noise = RowNoise(ROWS)
    torch.manual_seed(1)
    with noise.recorded():
        pair.gradient(pair.estimator, pair.batch)
    torch.manual_seed(1)
    found, objective = pair.gradient(estimator, replace(pair.batch, weight=weights))
    expected, bound = torch.zeros_like(found), torch.zeros_like(objective)
    for row in range(ROWS):
        alone = pair.batch.take(torch.tensor([row])).to("cpu")
        with noise.of_row(row):
            gradient, of_row = pair.gradient(pair.estimator, alone)
        expected += weights[row] * gradient / ROWS
        bound += weights[row] * of_row / ROWS
    assert (objective - bound).abs() < EXACT * bound.abs().clamp_min(1)
    error = float((found - expected).norm() / expected.norm())
    assert not EXACT <= error <= VISIBLE, f"neither right nor clearly wrong: {error:.1e}"
    return error


@EVERY
def test_the_gradient_is_the_weighted_sum_of_those_of_the_rows_alone(pair: Pair) -> None:
    assert deviation(pair, pair.estimator, WEIGHTS) < EXACT


@METHOD
@pytest.mark.parametrize("twin", [DividedBySum, UnweightedPhi])
def test_a_wrong_twin_is_seen(pair: Pair, twin: type[DividedBySum]) -> None:
    assert deviation(pair, twin(pair.estimator), WEIGHTS) > VISIBLE


@pairs(SLEEP)
def test_dreams_that_all_count_alike_are_seen(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dream has the context of its row: where the row counts twice, so does the dream."""
    dream = reweighted_wake_sleep._dream_loss
    monkeypatch.setattr(
        reweighted_wake_sleep, "_dream_loss", lambda model, batch: dream(model, replace(batch, weight=None))
    )
    assert deviation(pair, pair.estimator, WEIGHTS) > VISIBLE


@EVERY
def test_weights_of_one_change_no_bit(pair: Pair) -> None:
    """Over several steps, so that what is remembered is the same, too."""
    states = []
    for weight in (None, torch.ones(ROWS), torch.ones(ROWS, dtype=torch.float64)):
        model, estimator = copy.deepcopy(pair.model), copy.deepcopy(pair.estimator)
        learner = Learner(model, estimator)
        optimizer = torch.optim.Adam(learner.parameters(), 0.01)
        torch.manual_seed(2)
        losses = []
        for _ in range(3):
            estimate = learner(replace(pair.batch, weight=weight))
            optimizer.zero_grad()
            estimate.loss.backward()
            optimizer.step()
            losses += [estimate.loss, estimate.objective, *estimate.diagnostics.values()]
        states.append([*losses, *learner.parameters(), *learner.buffers()])
    for plain, *others in zip(*states, strict=True):
        assert all(torch.equal(plain, other) for other in others)


@METHOD
def test_chains_and_diagnostics_do_not_depend_on_weights(pair: Pair) -> None:
    found = []
    for weight in (None, WEIGHTS, torch.zeros(ROWS)):
        estimator = copy.deepcopy(pair.estimator)
        torch.manual_seed(3)
        estimate = estimator(pair.model, replace(pair.batch, weight=weight))
        states = [] if estimator.chains is None else [*estimator.chains.state_dict().values()]
        found.append([estimate.log_weights, *estimate.diagnostics.values(), *states])
    for plain, *others in zip(*found, strict=True):
        assert all(torch.equal(plain, other) for other in others)


@EVERY
def test_a_batch_of_weights_of_zero_has_a_gradient_of_zero(pair: Pair) -> None:
    gradient, objective = pair.gradient(pair.estimator, replace(pair.batch, weight=torch.zeros(ROWS)))
    assert not gradient.any()
    assert objective == 0
    estimator = copy.deepcopy(pair.estimator)
    estimator(pair.model, replace(pair.batch, weight=torch.zeros(ROWS)))
    assert all(value.isfinite().all() for value in estimator.state_dict().values() if value.is_floating_point())


def test_a_baseline_follows_the_weighted_mean_of_the_signal() -> None:
    batch = Batch(torch.zeros(3, 1), torch.arange(3))
    signal = torch.tensor([[1.0, 2.0, 900.0], [3.0, 4.0, 100.0]])
    assert mean_signal(batch, signal) == signal.mean()
    weighted = replace(batch, weight=torch.tensor([2.0, 1.0, 0.0]))
    assert mean_signal(weighted, signal) == signal[:, [0, 0, 1]].mean()


@pytest.mark.parametrize(
    ("name", "options", "remembered"),
    [("nvil", {}, "centers"), ("reinforce", {"baseline": "running"}, "running_signal")],
)
def test_a_row_of_weight_zero_moves_no_baseline(name: str, options: Options, remembered: str) -> None:
    pair = Pair.of(name, "two-layers", options)
    last_is_another = replace(pair.batch, x=torch.cat([pair.batch.x[:-1], 1 - pair.batch.x[-1:]]))
    for last, same in ((0.0, True), (1.0, False)):
        weight = torch.ones(ROWS)
        weight[-1] = last
        found = []
        for batch in (pair.batch, last_is_another):
            estimator = copy.deepcopy(pair.estimator)
            torch.manual_seed(4)
            estimator(pair.model, replace(batch, weight=weight))
            found.append(estimator.get_buffer(remembered))
        assert torch.equal(*found) == same
        assert (found[0] != pair.estimator.get_buffer(remembered)).all()


def test_the_supervised_loss_is_weighted() -> None:
    example = with_known("two-layers")
    h = example.model.posterior(example.batch).sample((2,))
    alone = torch.stack(
        [
            supervised_loss(example.model, example.batch.take(torch.tensor([row])), h[:, [row]])
            for row in range(len(example.batch))
        ]
    )
    weighted = replace(example.batch, weight=WEIGHTS[:3])
    found = supervised_loss(example.model, weighted, h)
    torch.testing.assert_close(found, (alone * WEIGHTS[:3]).sum() / 3, rtol=0, atol=EXACT)
    assert abs(found - alone.mean()) > VISIBLE


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        (torch.ones(2), r"3 rows need one weight per row, .* not torch.float32 of shape \(2,\)"),
        (torch.ones(3, 1), r"not torch.float32 of shape \(3, 1\)"),
        (torch.ones(3, dtype=torch.int64), r"not torch.int64 of shape \(3,\)"),
        (torch.tensor([1.0, -0.5, 1.0]), "row 8 has weight -0.5: give a finite number that is not negative, and 0 to"),
        (torch.tensor([1.0, 1.0, torch.nan]), "row 9 has weight nan"),
        (torch.tensor([torch.inf, 1.0, 1.0]), "row 7 has weight inf"),
        ([1.0, 1.0, 1.0], "weight of a batch must be a tensor, not list: use torch.as_tensor"),
    ],
)
def test_a_wrong_weight_is_refused(weight: Tensor, sentence: str) -> None:
    # Without the type checks of these tests, which would come first.
    with pytest.raises(UsageError, match=sentence):
        inspect.unwrap(Batch.__init__)(object.__new__(Batch), torch.zeros(3, 2), torch.arange(7, 10), weight=weight)


def test_a_wrong_weight_that_nobody_looked_at_makes_the_loss_nan() -> None:
    """As on a device for which a check would have to wait; taken batches are not checked either."""
    pair = Pair.of("jsa", "one-layer", {})
    rows = torch.arange(ROWS)
    for wrong in (-1.0, torch.nan, torch.inf):
        weight = WEIGHTS.clone()
        weight[4] = wrong
        batch = TakenBatch(pair.batch.x, rows, weight=weight, source=pair.batch, rows=rows)
        gradient, objective = pair.gradient(pair.estimator, batch)
        assert not gradient.isfinite().all()
        assert not objective.isfinite()


def test_weights_leave_the_precision_of_a_loss() -> None:
    for weight in (torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.float16)):
        batch = Batch(torch.zeros(3, 1), torch.arange(3), weight=weight)
        assert batch.mean(torch.ones(2, 3)).dtype == torch.float32


def test_weights_go_where_their_rows_go() -> None:
    batch = Batch(torch.eye(3), torch.arange(3), weight=torch.tensor([1.0, 2.0, 3.0]))
    taken = batch.take(torch.tensor([2, 0, 2]))
    for rows in (taken, taken.to("cpu"), taken.with_nothing_known(), taken.take(torch.arange(3))):
        assert rows.weight is not None
        assert rows.weight.tolist() == [3.0, 1.0, 3.0]
    assert batch.to("meta").weight is not None
