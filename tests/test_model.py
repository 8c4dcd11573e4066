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
                return torch.where(at_row, torch.nan, joint)
            case "infinite joint":
                return torch.where(at_row, torch.inf, joint)
            case "excluded":
                return torch.where(at_row, -torch.inf, joint)
        return joint

    def posterior(self, batch: Batch) -> Posterior:
        logits = self.logits.expand(len(batch), -1)
        if self.fault == "nan posterior":
            logits = torch.where((batch.index == 12).unsqueeze(1), torch.nan, logits)
        posterior = LayeredPosterior(self.latent, Bernoulli(logits))
        if self.fault == "latent variables not summed":
            posterior.log_prob = lambda h: h * logits
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


def test_a_joint_of_the_wrong_shape_is_named() -> None:
    with pytest.raises(UsageError, match=r"OwnModel\.log_joint returned shape \(2, 3, 4\) .* must be \(2, 3\)"):
        weights_of(OwnModel("observed variables not summed"))


def test_a_posterior_of_the_wrong_shape_is_named() -> None:
    with pytest.raises(UsageError, match=r"LayeredPosterior\.log_prob returned shape \(2, 3, 2\) .* \(2, 3\)"):
        weights_of(OwnModel("latent variables not summed"))


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("nan joint", "log_joint is nan at row 12"),
        ("infinite joint", "log_joint is inf at row 12"),
        ("nan posterior", r"posterior\.log_prob is nan at row 12"),
    ],
)
def test_a_value_that_is_not_finite_is_named_with_its_row(fault: str, sentence: str) -> None:
    with pytest.raises(NumericalError, match=sentence):
        weights_of(OwnModel(fault))


def test_a_state_that_the_model_excludes_is_no_error() -> None:
    weights = weights_of(OwnModel("excluded"))
    assert (weights[:, 1] == -torch.inf).all()
    assert weights[:, [0, 2]].isfinite().all()


@pytest.mark.parametrize("fault", ["nan joint", "nan posterior", "observed variables not summed"])
def test_training_stops_at_a_wrong_model(fault: str) -> None:
    model = OwnModel(fault)
    with pytest.raises((NumericalError, UsageError)):
        JSA(model.latent, rows=20)(model, BATCH)


@pytest.mark.parametrize("fault", ["observed variables not summed", "latent variables not summed"])
def test_enumeration_checks_shapes_too(fault: str) -> None:
    with pytest.raises(UsageError, match="returned shape"):
        Enumeration()(OwnModel(fault), BATCH)


def test_a_batch_takes_rows_with_repetition() -> None:
    batch = Batch(torch.eye(3), torch.tensor([4, 9, 2]), context=torch.arange(3.0).unsqueeze(1))
    taken = batch.take(torch.tensor([2, 0, 2]))
    assert taken.index.tolist() == [2, 4, 2]
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
    learner = Learner(example.model, JSA(example.model.latent, rows=3)).eval()
    with torch.no_grad():
        learner(example.batch)
    with pytest.warns(UserWarning, match=r"call learner\.train\(\) before training steps"):
        learner(example.batch)
    assert learner.estimator.chains.visits == 0
    learner.train()
    learner(example.batch)
    assert learner.estimator.chains.visits == 3


def test_a_learner_knows_the_stage_of_its_chains() -> None:
    example = one_layer()
    learner = Learner(example.model, JSA(example.model.latent, rows=3))
    learner.stage = 2
    assert learner.stage is learner.estimator.stage is Stage.PERSISTENT
    for wrong in (3, None):
        with pytest.raises(UsageError, match=f"the stage is Stage.FRESH or Stage.PERSISTENT, not {wrong}"):
            learner.stage = wrong


def test_a_learner_without_chains_has_no_stage() -> None:
    learner = Learner(one_layer().model, Enumeration())
    with pytest.raises(UsageError, match="Enumeration has no chains and so no stages"):
        learner.stage = Stage.PERSISTENT
    assert learner.stage is learner.estimator.stage is learner.estimator.chains is None


def unchecked_batch(x: Tensor, index: Tensor, context: Tensor | None = None, known: Tensor | None = None) -> Batch:
    """A batch as a user makes it, without the checks of types that these tests have everywhere."""
    batch = object.__new__(Batch)
    vars(batch).update(x=x, index=index, context=context, known=known)
    batch.__post_init__()
    return batch


@pytest.mark.parametrize(
    ("index", "sentence"),
    [
        (torch.arange(2), r"a batch of 3 rows needs one row number per row.*int64 of shape \(2,\)"),
        (torch.arange(3, dtype=torch.int32), r"a batch of 3 rows needs one row number per row.*not torch\.int32"),
        (torch.zeros(3, 1, dtype=torch.int64), r"of shape \(3, 1\)"),
    ],
)
def test_row_numbers_that_do_not_fit_are_refused(index: Tensor, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        unchecked_batch(torch.ones(3, 4), index)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"x": np.ones((3, 4))}, "x of a batch must be a tensor, not ndarray: use torch.as_tensor"),
        ({"index": [0, 1, 2]}, "index of a batch must be a tensor, not list"),
        ({"index": np.arange(3)}, "index of a batch must be a tensor, not ndarray"),
        ({"context": [1, 2, 3]}, "context of a batch must be a tensor, not list"),
        (
            {"known": torch.ones(3, 2, dtype=torch.bool)},
            "known states must be floating point, with NaN .*, not torch.bool",
        ),
    ],
)
def test_parts_of_a_batch_that_are_no_such_tensors_are_refused(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        unchecked_batch(**{"x": torch.ones(3, 4), "index": torch.arange(3), **given})


def test_a_context_of_other_rows_is_refused() -> None:
    with pytest.raises(UsageError, match="a batch of 3 rows has a context of 2 rows"):
        unchecked_batch(torch.ones(3, 4), torch.arange(3), torch.ones(2, 4))


def test_taken_rows_forget_what_is_known_together_with_their_source() -> None:
    batch = Batch(torch.ones(3, 4), torch.arange(3), known=torch.ones(3, 2))
    taken = batch.take(torch.tensor([2, 2])).with_nothing_known()
    assert taken.known is None
    assert taken.for_each_row(lambda rows: rows.x.sum(-1) + (rows.known is not None)).tolist() == [4, 4]


def test_a_batch_moves_whole() -> None:
    batch = Batch(torch.ones(3, 4), torch.arange(3), torch.zeros(3, 1), torch.ones(3, 2)).to("meta")
    parts = batch.x, batch.index, batch.context, batch.known
    assert {part.device.type for part in parts if part is not None} == {"meta"}
    assert len(parts) == 4


def test_known_states_of_other_rows_are_refused() -> None:
    with pytest.raises(UsageError, match="a batch of 3 rows has known states of 2 rows"):
        unchecked_batch(torch.ones(3, 4), torch.arange(3), known=torch.ones(2, 4))
