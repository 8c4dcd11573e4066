"""What estimators ask of a model, with the errors that a wrong model gets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.small_models import Example, one_layer
from jsa import (
    JSA,
    Batch,
    Bernoulli,
    Enumeration,
    Estimator,
    LatentSpace,
    LatentVariableModel,
    Layer,
    LayeredPosterior,
    Learner,
    Posterior,
    Stage,
)
from jsa.errors import NumericalError, UsageError
from jsa.model_calls import evaluate, posterior_of


class OwnModel(LatentVariableModel):
    """Two fair coins and two logits, with a fault to be chosen."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.latent = LatentSpace.of(Layer("bernoulli", 2))
        self.logits = torch.nn.Parameter(torch.tensor([0.3, -0.8], dtype=torch.float64))
        self.fault = fault

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        value = batch.x * h.sum(-1, keepdim=True)
        if self.fault == "observed variables not summed":
            return value
        joint = value.sum(-1)
        at_row = batch.index == 12
        match self.fault:
            case "nan joint":
                return torch.where(torch.as_tensor(at_row), torch.nan, joint)
            case "infinite joint":
                return torch.where(torch.as_tensor(at_row), torch.inf, joint)
            case "excluded":
                return torch.where(torch.as_tensor(at_row), -torch.inf, joint)
        return joint

    def posterior(self, batch: Batch) -> Posterior:
        logits = self.logits.expand(len(batch), -1)
        if self.fault == "nan posterior":
            logits = torch.where((batch.row_numbers == 12).unsqueeze(1), torch.nan, logits)
        posterior = LayeredPosterior(self.latent, Bernoulli(logits))
        if self.fault == "latent variables not summed":
            vars(posterior)["log_prob"] = lambda h: h * logits
        return posterior


BATCH = Batch(torch.ones(3, 4, dtype=torch.float64), torch.tensor([5, 12, 7]))


def weights_of(model: LatentVariableModel) -> Tensor:
    posterior = posterior_of(model, BATCH)
    h = torch.ones(2, 3, 2, dtype=torch.float64)
    return evaluate(model, BATCH, posterior, h).log_weights


def test_weights_are_the_ratio_without_gradient(example: Example) -> None:
    posterior = posterior_of(example.model, example.batch)
    h = posterior.sample((4,))
    expected = example.model.log_joint(example.batch, h) - posterior.log_prob(h)
    found = evaluate(example.model, example.batch, posterior, h).log_weights
    assert torch.equal(found, expected)
    assert not found.requires_grad


CHAINS, EVERY_STATE = JSA(OwnModel().latent, rows=20), Enumeration()
FAULTS: list[tuple[str, str, list[Estimator]]] = [
    ("observed variables not summed", r"\.log_joint returned shape \(2, 3, 4\) .* \(2, 3\)", [CHAINS, EVERY_STATE]),
    ("latent variables not summed", r"\.log_prob returned shape \(2, 3, 2\) .* must be \(2, 3\)", [EVERY_STATE]),
    ("nan joint", "log_joint is nan at row 12", [CHAINS]),
    ("infinite joint", "log_joint is inf at row 12", [CHAINS]),
    ("nan posterior", r"posterior\.log_prob is nan at row 12", [CHAINS]),
]


@pytest.mark.parametrize(("fault", "sentence", "estimators"), FAULTS)
def test_what_a_wrong_model_returns_is_named_and_stops_the_training(
    fault: str, sentence: str, estimators: list[Estimator]
) -> None:
    error = UsageError if "summed" in fault else NumericalError
    with pytest.raises(error, match=sentence):
        weights_of(OwnModel(fault))
    for estimator in estimators:
        with pytest.raises(error, match=r"returned shape|at row 12"):
            estimator(OwnModel(fault), BATCH)


def test_a_state_that_the_model_excludes_is_no_error() -> None:
    weights = weights_of(OwnModel("excluded"))
    assert (weights[:, 1] == -torch.inf).all()
    assert weights[:, [0, 2]].isfinite().all()


def test_a_batch_takes_rows_with_repetition() -> None:
    batch = Batch(torch.eye(3), torch.tensor([4, 9, 2]), context=torch.arange(3.0).unsqueeze(1))
    taken = batch.take(torch.tensor([2, 0, 2]))
    assert taken.row_numbers.tolist() == [2, 4, 2]
    assert torch.equal(taken.x, torch.eye(3)[[2, 0, 2]])
    assert taken.context is not None
    assert taken.context.flatten().tolist() == [2, 0, 2]
    assert len(taken) == 3


def test_a_learner_is_the_model_with_its_estimator() -> None:
    example = one_layer()
    learner = Learner(example.model, JSA(example.model.latent, rows=3))
    assert [*learner.parameters()] == [*example.model.parameters()]
    torch.manual_seed(0)
    found = learner(example.batch).loss
    torch.manual_seed(0)
    assert torch.equal(found, JSA(example.model.latent, rows=3)(example.model, example.batch).loss)
    learner.eval()
    assert not learner.estimator.training


def test_a_learner_says_that_its_chains_stand_still() -> None:
    example = one_layer()
    estimator = JSA(example.model.latent, rows=3)
    learner = Learner(example.model, estimator).eval()
    with torch.no_grad():
        learner(example.batch)
    with pytest.warns(UserWarning, match=r"call learner\.train\(\) before training steps"):
        learner(example.batch)
    assert estimator.chains.visits == 0
    learner.train()
    learner(example.batch)
    assert estimator.chains.visits == 3


def test_a_learner_knows_the_stage_of_its_chains() -> None:
    example = one_layer()
    learner = Learner(example.model, JSA(example.model.latent, rows=3))
    learner.stage = 2
    assert learner.stage is learner.estimator.stage is Stage.PERSISTENT
    with pytest.raises(UsageError, match=r"the stage is Stage\.FRESH or Stage\.PERSISTENT, not 3"):
        learner.stage = 3


def test_a_learner_without_chains_has_no_stage() -> None:
    learner = Learner(one_layer().model, Enumeration())
    with pytest.raises(UsageError, match="Enumeration has no chains and so no stages"):
        learner.stage = Stage.PERSISTENT
    assert learner.stage is None
    assert learner.estimator.stage is None
    assert learner.estimator.chains is None


NUMBERS = "a batch of 3 rows needs one row number per row"
TENSOR = "of a batch must be a tensor, not"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"index": torch.arange(2)}, rf"{NUMBERS}.*int64 of shape \(2,\)"),
        ({"index": torch.arange(3, dtype=torch.int32)}, rf"{NUMBERS}.*not torch\.int32"),
        ({"index": torch.zeros(3, 1, dtype=torch.int64)}, r"of shape \(3, 1\)"),
        ({"x": np.ones((3, 4))}, f"x {TENSOR} ndarray: use torch.as_tensor"),
        ({"index": [0, 1, 2]}, f"index {TENSOR} list"),
        ({"index": np.arange(3)}, f"index {TENSOR} ndarray"),
        ({"context": [1, 2, 3]}, f"context {TENSOR} list"),
        ({"known": torch.ones(3, 2, dtype=torch.bool)}, "known states must be floating point, .*, not torch.bool"),
        ({"context": torch.ones(2, 4)}, "a batch of 3 rows has a context of 2 rows"),
        ({"known": torch.ones(2, 4)}, "a batch of 3 rows has known states of 2 rows"),
    ],
)
def test_parts_that_make_no_batch_are_refused(given: dict[str, object], sentence: str) -> None:
    # As a user makes it, without the checks of types that these tests have everywhere.
    batch = object.__new__(Batch)
    parts = {"x": torch.ones(3, 4), "index": torch.arange(3), "context": None, "known": None, **given}
    vars(batch).update(parts)
    with pytest.raises(UsageError, match=sentence):
        batch.__post_init__()


def test_taken_rows_forget_what_is_known_together_with_their_source() -> None:
    batch = Batch(torch.ones(3, 4), torch.arange(3), known=torch.ones(3, 2))
    taken = batch.take(torch.tensor([2, 2])).with_nothing_known()
    assert taken.known is None
    assert taken.for_each_row(lambda rows: rows.x.sum(-1) + (rows.known is not None)).tolist() == [4, 4]


def test_a_batch_moves_whole() -> None:
    parts = torch.ones(3, 4), torch.arange(3), torch.zeros(3, 1), torch.ones(3, 2), torch.ones(3), True
    batch = Batch(*parts).to("meta")
    moved = [part for part in (batch.x, batch.context, batch.known, batch.weight) if part is not None]
    assert [part.device.type for part in moved] == ["meta"] * 4
    # The numbers stay where chains are looked up without waiting for the device.
    assert batch.row_numbers.tolist() == [0, 1, 2]
    assert batch.gaps
