"""Which parameters are theta, which are phi, and that asking changes nothing."""

from __future__ import annotations

import contextlib
import copy
from dataclasses import replace
from typing import Any, assert_type

import pytest
import torch
from torch import Tensor, nn

import jsa.parameter_groups
from helpers.methods import NAMES, SMALL_MODELS, estimator_of, models_of
from helpers.small_models import EXAMPLES, Example, bits, two_layers
from jsa import (
    JSA,
    VIMCO,
    Batch,
    Bernoulli,
    Estimate,
    LatentSpace,
    LatentVariableModel,
    Layer,
    LayeredPosterior,
    Learner,
    UsageError,
)

LATENT = LatentSpace.of(Layer("bernoulli", 3))


class Sharing(LatentVariableModel):
    """A trunk that p and q share, layers that remember what they see, and a network that neither uses."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.latent = LATENT
        self.trunk = nn.Linear(4, 4)
        self.encoder = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.3), nn.Linear(4, 3))
        self.decoder = nn.Linear(3, 4)
        self.scale = nn.Parameter(torch.ones(()))
        self.unused = nn.Linear(2, 2)
        self.register_buffer("calls", torch.zeros(()))

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return Bernoulli(self.decoder(h) + self.trunk(batch.x)).log_prob(batch.x) * self.scale

    def posterior(self, batch: Batch) -> LayeredPosterior:
        # Another tensor in the place of the buffer.
        self.calls = self.calls + 1
        return LayeredPosterior(self.latent, Bernoulli(self.encoder(self.trunk(batch.x))), known=batch.known)


def sharing() -> Example:
    torch.manual_seed(0)
    batch = bits(rows=6, width=4)
    return Example(Sharing(), replace(batch, x=batch.x.float()))


def names_of(learner: Learner, batch: Batch) -> dict[str, set[str]]:
    names = {id(parameter): name for name, parameter in learner.named_parameters()}
    return {group["name"]: {names[id(one)] for one in group["params"]} for group in learner.parameter_groups(batch)}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("model", [*SMALL_MODELS, "layers-that-know-the-row"])
def test_every_parameter_is_in_its_group(name: str, model: str) -> None:
    if model in SMALL_MODELS and model not in models_of(name):
        pytest.skip("not for this method")
    example = (SMALL_MODELS | EXAMPLES)[model]()
    learner = Learner(example.model, estimator_of(name, example.model, example.batch))
    every = {name for name, _ in learner.named_parameters()}
    expected = {
        "theta": {name for name in every if name.startswith("model.") and "inference" not in name},
        "phi": {name for name in every if "inference" in name},
        "estimator": {name for name in every if name.startswith("estimator.")},
    }
    assert names_of(learner, example.batch) == {name: found for name, found in expected.items() if found}


def test_what_p_and_q_share_is_in_phi_and_what_neither_uses_in_theta() -> None:
    example = sharing()
    found = names_of(Learner(example.model, VIMCO(2)), example.batch)
    parts = {group: {name.split(".")[1] for name in names} for group, names in found.items()}
    assert parts == {"theta": {"decoder", "scale", "unused"}, "phi": {"trunk", "encoder"}}


def test_frozen_parameters_are_left_out() -> None:
    example = sharing()
    learner = Learner(example.model, VIMCO(2))
    model = example.model
    assert isinstance(model, Sharing)
    model.encoder.requires_grad_(False)
    model.decoder.requires_grad_(False)
    found = names_of(learner, example.batch)
    assert not any("coder" in name for names in found.values() for name in names)
    # The trunk is reached all the same.
    assert found["phi"] == {"model.trunk.weight", "model.trunk.bias"}
    model.trunk.requires_grad_(False)
    assert set(names_of(learner, example.batch)) == {"theta"}
    model.requires_grad_(False)
    with pytest.raises(UsageError, match="unfreeze some with requires_grad_"):
        learner.parameter_groups(example.batch)


def test_where_everything_is_known_phi_is_the_same() -> None:
    example = sharing()
    learner = Learner(example.model, VIMCO(2))
    known = replace(example.batch, known=torch.ones(6, 3))
    assert names_of(learner, known) == names_of(learner, example.batch)


def test_without_gradients_too() -> None:
    example = sharing()
    learner = Learner(example.model, VIMCO(2))
    with torch.no_grad():
        found = names_of(learner, example.batch)
    assert found == names_of(learner, example.batch)


def test_an_estimator_that_uses_the_model_takes_nothing_from_it() -> None:
    example = sharing()
    estimator = VIMCO(2)
    estimator.network = nn.ModuleList([example.model, nn.Linear(1, 1)])
    learner = Learner(example.model, estimator)
    groups = learner.parameter_groups(example.batch)
    torch.optim.Adam(groups)
    (own,) = (group["params"] for group in groups if group["name"] == "estimator")
    assert sum(one.numel() for one in own) == 2


def everything(learner: Learner) -> list[Any]:
    tensors = [*learner.parameters(), *learner.buffers()]
    return [
        *(tensor.detach().clone() for tensor in tensors),
        learner.estimator.state_dict().get("_extra_state", torch.zeros(())),
        torch.get_rng_state(),
    ]


def same(before: list[Tensor], after: list[Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def trained() -> tuple[Learner, Batch]:
    example = sharing()
    learner = Learner(example.model, JSA(LATENT, rows=6, stage=2))
    learner(example.batch).loss.backward()
    return learner, example.batch


def test_asking_changes_nothing() -> None:
    learner, batch = trained()
    learner.model.get_submodule("encoder.1").eval()
    modes = [part.training for part in learner.modules()]
    gradients = [copy.deepcopy(parameter.grad) for parameter in learner.parameters()]
    tensors = list(map(id, learner.buffers()))
    before = everything(learner)
    learner.parameter_groups(batch)
    assert same(before, everything(learner))
    assert tensors == list(map(id, learner.buffers()))
    assert modes == [part.training for part in learner.modules()]
    for parameter, gradient in zip(learner.parameters(), gradients, strict=True):
        assert (parameter.grad is None) == (gradient is None)
        if parameter.grad is not None and gradient is not None:
            assert torch.equal(parameter.grad, gradient)


def test_a_pass_alone_would_change_something(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, batch = trained()
    before = everything(learner)
    monkeypatch.setattr(jsa.parameter_groups, "leaving_no_trace", lambda *_: contextlib.nullcontext())
    learner.parameter_groups(batch)
    assert not same(before, everything(learner))


def test_a_graph_that_is_there_stays_good() -> None:
    learner, batch = trained()
    loss = learner(batch).loss
    learner.parameter_groups(batch)
    loss.backward()


def test_two_learning_rates() -> None:
    example = two_layers()
    learner = Learner(example.model, estimator_of("nvil", example.model, example.batch))
    rates = {"theta": 0.1, "phi": 0.0, "estimator": 0.01}
    groups = learner.parameter_groups(example.batch)
    optimizer = torch.optim.Adam([{**group, "lr": rates[group["name"]]} for group in groups])
    before = {name: parameter.detach().clone() for name, parameter in learner.named_parameters()}
    learner(example.batch).loss.backward()
    optimizer.step()
    for name, parameter in learner.named_parameters():
        rate = rates["estimator" if name.startswith("estimator") else "phi" if "inference" in name else "theta"]
        # The first step of Adam is one learning rate long.
        assert float((parameter.detach() - before[name]).abs().max()) == pytest.approx(rate, rel=1e-3), name


def test_a_call_of_a_learner_and_of_an_estimator_has_a_type() -> None:
    example = two_layers()
    estimator = VIMCO(2)
    assert_type(Learner(example.model, estimator)(example.batch), Estimate)
    assert_type(estimator(example.model, example.batch), Estimate)
    assert isinstance(Learner(example.model, estimator)(example.batch), Estimate)
