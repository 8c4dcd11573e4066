"""The noise of gradients, against what is known exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import pytest
import torch

from helpers.refusals import refuses
from helpers.sizes import sizes
from helpers.small_models import Example, enumerated, exact_gradients, one_layer
from jsa import JSA, Batch, LatentVariableModel, Stage
from jsa.estimators import Enumeration, Hybrid, LeaveOneOut, Reinforce
from jsa.evaluation.gradient_variance import gradient_report
from jsa.evaluation.moments import Moments
from jsa.evaluation.posterior_gradient import PosteriorGradient, posterior_gradient, posterior_moves
from jsa.parameter_groups import parameter_groups

MODULE = "jsa.evaluation.posterior_gradient"


def test_streamed_moments_are_those_of_all_vectors() -> None:
    vectors = torch.randn(50, 7, dtype=torch.float64) * torch.arange(1, 8) + 3
    whole, parts = Moments(), [Moments(), Moments()]
    for number, vector in enumerate(vectors):
        parts[number >= 20].add(vector)
    for part in parts:
        whole.merge(part)
    assert whole.summed_variance == pytest.approx(float(vectors.var(0).sum()), rel=1e-12)
    assert torch.allclose(torch.as_tensor(whole.mean), vectors.mean(0))


def exact_variance(model: LatentVariableModel, batch: Batch) -> dict[str, float]:
    """The summed variance of REINFORCE with one draw and one row, over all draws."""
    exact, found = enumerated(model, batch), {}
    losses = -(exact.log_weights * exact.log_inference + exact.log_joint)[:, 0]
    probability = exact.inference[:, :1]
    for name, parameters in parameter_groups(model, batch).items():
        vectors = (torch.autograd.grad(loss, parameters, retain_graph=True) for loss in losses)
        table = torch.stack([torch.cat([part.flatten() for part in vector]) for vector in vectors])
        mean = (probability * table).sum(0)
        found[name] = float((probability * (table - mean).square()).sum())
    return found


@pytest.mark.parametrize(("draws", "width"), [(1_000, 0.9), pytest.param(40_000, 0.15, marks=pytest.mark.slow)])
def test_the_variance_of_reinforce_is_the_enumerated_one(draws: int, width: float) -> None:
    example = one_layer()
    batch = example.batch.take(torch.tensor([0]))
    report = gradient_report(example.model, Reinforce(particles=1), batch, draws=draws)
    for name, variance in exact_variance(example.model, batch).items():
        found = report.given_state[name]
        assert found.low - 0.1 < math.log(variance) < found.high + 0.1
        assert found.high - found.low < width
    assert report.total == report.given_state
    assert report.decoder_evaluations == 1


def test_an_exact_gradient_has_no_variance() -> None:
    example = one_layer()
    report = gradient_report(example.model, Enumeration(), example.batch, draws=20)
    assert report.given_state["phi"].log_variance < -60


def test_a_frozen_chain_has_variance_in_total_only() -> None:
    """Proposals of almost no weight: given its state a chain hardly moves, and its states still differ."""
    example = one_layer()
    with torch.no_grad():
        # An inference model that proposes almost always the same unlikely state.
        dict(example.model.named_parameters())["inference.0.network.layers.1.bias"].copy_(torch.tensor([40, -40, 40]))
    estimator = JSA(example.model.latent, rows=3, particles=1)
    report = gradient_report(example.model, estimator, example.batch, draws=40, moves=20)
    assert report.given_state["theta"].log_variance <= report.total["theta"].log_variance


@pytest.mark.parametrize("draws", sizes(200, 4_000))
@pytest.mark.parametrize("kind", [JSA, Hybrid])
def test_chains_at_the_posterior_have_no_bias(kind: type[JSA], draws: int) -> None:
    example = one_layer()
    reference = posterior_gradient(example.model, example.batch)
    exact = exact_gradients(example.model, example.batch)
    groups = parameter_groups(example.model, example.batch)
    names = {id(parameter): name for name, parameter in example.model.named_parameters()}
    for group, parameters in groups.items():
        expected = torch.cat([exact[names[id(parameter)]].flatten() for parameter in parameters])
        assert torch.allclose(reference.gradients[group], expected)
    assert set(reference.squared_errors.values()) == {0.0}
    estimator = kind(example.model.latent, 3, 3)
    report = gradient_report(example.model, estimator, example.batch, draws=draws, moves=20, reference=reference)
    for group, squared in report.squared_bias.items():
        assert squared < 8 / draws * float(reference.gradients[group].square().sum())
    wrong = replace(reference, gradients={group: found + 1 for group, found in reference.gradients.items()})
    shifted = gradient_report(example.model, estimator, example.batch, draws=100, moves=20, reference=wrong)
    for group, gradient in reference.gradients.items():
        assert shifted.squared_bias[group] == pytest.approx(len(gradient), rel=0.5)


@pytest.mark.parametrize("moves", sizes(10_000, 200_000))
def test_long_chains_give_the_enumerated_gradient(moves: int, monkeypatch: pytest.MonkeyPatch) -> None:
    example = one_layer()
    exact = posterior_gradient(example.model, example.batch).gradients
    monkeypatch.setattr(f"{MODULE}.STATES_SUMMED", 1)
    sampled = posterior_gradient(example.model, example.batch, moves=moves).gradients
    for group in exact:
        assert (sampled[group] - exact[group]).norm() < 14 / moves**0.5 * exact[group].norm()


def test_measuring_changes_nothing() -> None:
    example = one_layer()
    before = {name: parameter.clone() for name, parameter in example.model.named_parameters()}
    estimator = LeaveOneOut(2).train()
    gradient_report(example.model, estimator, example.batch, draws=20)
    assert estimator.training
    assert "log_joint" not in vars(example.model)
    assert "log_joint_terms" not in vars(example.model)
    for name, parameter in example.model.named_parameters():
        assert torch.equal(parameter, before[name])
        assert parameter.grad is None


@pytest.mark.parametrize("stage", list(Stage))
def test_measuring_leaves_chains_where_they_stand(stage: Stage) -> None:
    example = one_layer()
    estimator = JSA(example.model.latent, rows=5, particles=2, stage=stage)
    for _ in range(3):
        estimator(example.model, example.batch.take(torch.tensor([0, 2])))
    before = {name: tensor.clone() for name, tensor in estimator.chains.state_dict().items()}
    gradient_report(example.model, estimator, example.batch, draws=20, moves=40)
    after = estimator.chains.state_dict()
    assert estimator.stage == stage
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


@pytest.mark.parametrize("frozen", ["inference", "generative"])
def test_frozen_parameters_and_no_gradients_outside_are_no_hindrance(frozen: str) -> None:
    example = one_layer()
    getattr(example.model, frozen).requires_grad_(False)
    if frozen == "generative":
        example.model.prior_parameters.requires_grad_(False)
    with torch.no_grad():
        report = gradient_report(example.model, JSA(example.model.latent, 3, 2), example.batch, draws=20, moves=20)
    group, other = ("phi", "theta") if frozen == "inference" else ("theta", "phi")
    assert report.total[group].log_variance == -math.inf
    assert math.isfinite(report.total[other].log_variance)


@contextmanager
def counted_moves() -> Iterator[list[int]]:
    """The moves of every call of the sampler."""
    made: list[int] = []
    with mock.patch(f"{MODULE}.posterior_moves", wraps=posterior_moves) as sampler:
        yield made
    made += [call.args[-1] for call in sampler.call_args_list]


@pytest.mark.parametrize(("moves", "burn_in"), [(10, None), (100, None), (230, 31)])
def test_a_reference_makes_the_moves_that_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, moves: int, burn_in: int | None
) -> None:
    example = one_layer()
    monkeypatch.setattr(f"{MODULE}.STATES_SUMMED", 1)
    with counted_moves() as made:
        posterior_gradient(example.model, example.batch, moves, burn_in)
    assert sum(made) == moves


def test_chains_make_the_moves_that_they_are_asked_for() -> None:
    with counted_moves() as made:
        redrawn(one_layer(), moves=30)
    assert sum(made) == 20 * 30


def frozen() -> Example:
    example = one_layer()
    example.model.requires_grad_(False)
    return example


def reported(example: Example, draws: int) -> object:
    return gradient_report(example.model, LeaveOneOut(2), example.batch, draws=draws)


def redrawn(example: Example, moves: int) -> object:
    return gradient_report(example.model, JSA(example.model.latent, 3, 2), example.batch, draws=20, moves=moves)


def referred(example: Example, moves: int, burn_in: int | None = None) -> object:
    return posterior_gradient(example.model, example.batch, moves, burn_in)


test_what_cannot_be_measured_is_refused = refuses(
    (lambda: reported(frozen(), draws=20), "no parameter of the model has a gradient"),
    (lambda: reported(one_layer(), draws=10), "at least 20 draws"),
    (lambda: redrawn(one_layer(), 0), "must be redrawn by 1 move or more, not 0"),
    (lambda: redrawn(one_layer(), -1), "must be redrawn by 1 move or more, not -1"),
    (lambda: referred(one_layer(), 0), "at least 10 moves, not 0"),
    (lambda: referred(one_layer(), -5), "at least 10 moves, not -5"),
    (lambda: referred(one_layer(), 100, 95), "a burn-in of 0 to 90, not 95"),
    (lambda: referred(one_layer(), 100, -1), "a burn-in of 0 to 90, not -1"),
)


def test_a_reference_tells_its_own_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    example = one_layer()
    exact = posterior_gradient(example.model, example.batch).gradients
    monkeypatch.setattr(f"{MODULE}.STATES_SUMMED", 1)
    torch.manual_seed(0)
    found = [posterior_gradient(example.model, example.batch, moves=400) for _ in range(24)]
    for group, gradient in exact.items():
        distance = sum(float((one.gradients[group] - gradient).square().sum()) for one in found) / len(found)
        told = sum(one.squared_errors[group] for one in found) / len(found)
        # Parts of a chain remember each other a little, so that it tells rather too little of its noise.
        assert 0.4 < told / distance < 2


def test_the_bias_is_less_the_noise_of_the_reference() -> None:
    example = one_layer()
    exact = posterior_gradient(example.model, example.batch)
    far = {group: gradient + 1 for group, gradient in exact.gradients.items()}
    squared = []
    for error in (0.0, 0.25):
        torch.manual_seed(0)
        reference = PosteriorGradient(far, dict.fromkeys(far, error))
        estimator = JSA(example.model.latent, 3, 2)
        report = gradient_report(example.model, estimator, example.batch, draws=20, moves=20, reference=reference)
        squared.append(report.squared_bias)
    for group in far:
        assert squared[0][group] - squared[1][group] == pytest.approx(0.25)
