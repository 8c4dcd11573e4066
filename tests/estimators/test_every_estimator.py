"""What holds for every method: where gradients go, what is saved, which sizes it takes."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from helpers.small_models import EXAMPLES, Example, enumerated
from jsa import Batch, BeliefNetwork, Estimator, Factorized, LatentVariableModel, LayeredPosterior
from jsa.errors import UsageError
from jsa.estimators import ESTIMATORS
from jsa.estimators.registry import build_estimator

CLASSES_ONLY = ("arsm",)


def example_for(name: str) -> Example:
    return EXAMPLES["categorical" if name in CLASSES_ONLY else "one-layer"]()


def built(name: str, model: LatentVariableModel, batch: Batch, **options: object) -> Estimator:
    inputs = batch.x.shape[1] + (0 if batch.context is None else batch.context.shape[1])
    estimator = build_estimator(name, model.latent, inputs=inputs, rows=100, options=options)
    return estimator.to(batch.x.dtype)


@pytest.fixture(params=sorted(ESTIMATORS))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_one_backward_reaches_every_parameter(name: str) -> None:
    example = example_for(name)
    estimator = built(name, example.model, example.batch)
    estimate = estimator(example.model, example.batch)
    assert estimate.loss.shape == estimate.objective.shape == ()
    assert not estimate.objective.requires_grad
    assert not estimate.log_weights.requires_grad
    estimate.loss.backward()
    for owner in (example.model, estimator):
        for parameter_name, parameter in owner.named_parameters():
            assert parameter.grad is not None, parameter_name
            assert parameter.grad.isfinite().all(), parameter_name


def test_the_state_comes_back(name: str) -> None:
    example = example_for(name)
    estimator = built(name, example.model, example.batch)
    for _ in range(3):
        estimator(example.model, example.batch)
    again = built(name, example.model, example.batch)
    again.load_state_dict(copy.deepcopy(estimator.state_dict()))
    if hasattr(estimator, "cache"):
        again.cache.restore(estimator.cache.checkpoint())
    losses = []
    for one in (estimator, again):
        torch.manual_seed(5)
        losses.append(one(example.model, example.batch).loss)
    assert torch.equal(losses[0], losses[1])


def test_single_precision_agrees_with_double(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the same draws: both precisions see uniforms that single precision can hold."""
    draw = torch.rand

    def single(*size: object, dtype: torch.dtype | None = None, **rest: object) -> torch.Tensor:
        return draw(*size, dtype=torch.float32, **rest).to(dtype or torch.float32)

    example = example_for(name)
    found = []
    for dtype in (torch.float64, torch.float32):
        model = copy.deepcopy(example.model).to(dtype)
        batch = Batch(example.batch.x.to(dtype), example.batch.index)
        torch.manual_seed(1)
        estimator = built(name, model, batch)
        monkeypatch.setattr(torch, "rand", single)
        torch.manual_seed(2)
        estimator(model, batch).loss.backward()
        monkeypatch.undo()
        found.append({key: value.grad.double() for key, value in model.named_parameters()})
    for key, expected in found[0].items():
        assert torch.allclose(found[1][key], expected, rtol=1e-3, atol=1e-4), key


def test_a_batch_of_one(name: str) -> None:
    example = example_for(name)
    one = example.batch.take(torch.tensor([1]))
    estimate = built(name, example.model, one)(example.model, one)
    assert estimate.loss.isfinite()


class OfPictures(LatentVariableModel):
    """A network that is given its observations in another shape."""

    relaxable = True

    def __init__(self, network: BeliefNetwork) -> None:
        super().__init__()
        self.network, self.latent = network, network.latent

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return self.network.log_joint(replace(batch, x=batch.x.flatten(1)), h)

    def posterior(self, batch: Batch) -> LayeredPosterior:
        return self.network.posterior(replace(batch, x=batch.x.flatten(1)))

    def latent_conditionals(self, batch: Batch, h: Tensor) -> list[Factorized]:
        return self.network.latent_conditionals(batch, h)


def test_an_observation_may_have_any_shape(name: str) -> None:
    example = example_for(name)
    assert isinstance(example.model, BeliefNetwork)
    torch.manual_seed(0)
    estimator = built(name, example.model, example.batch)
    pictures = replace(example.batch, x=example.batch.x.unflatten(1, (2, 1, -1)))
    losses = []
    for model, batch in ((example.model, example.batch), (OfPictures(example.model), pictures)):
        torch.manual_seed(1)
        losses.append(copy.deepcopy(estimator)(model, batch).loss)
    assert torch.allclose(losses[0], losses[1], atol=1e-12, rtol=0)


TWO_PARTICLES = {"rloo", "vimco", "arm", "disarm", "arms"}
NO_PARTICLES = {"enumeration", "arsm"}


def test_one_particle_or_a_sentence(name: str) -> None:
    example = example_for(name)
    if name in TWO_PARTICLES | NO_PARTICLES:
        sentence = "at least 2" if name in TWO_PARTICLES else "takes no option particles"
        with pytest.raises(UsageError, match=sentence):
            built(name, example.model, example.batch, particles=1)
    else:
        estimator = built(name, example.model, example.batch, particles=1)
        assert estimator(example.model, example.batch).loss.isfinite()


def test_no_particle_is_refused(name: str) -> None:
    example = example_for(name)
    with pytest.raises(UsageError, match="particle"):
        built(name, example.model, example.batch, particles=0)


def test_it_says_what_it_is(name: str) -> None:
    kind = ESTIMATORS[name]
    about = kind.description
    assert all((about.optimizes, about.unbiased, about.latents, about.decoder_evaluations, about.reference))
    assert kind.__doc__ is not None
    assert "References:" in kind.__doc__ or about.reference == "this library"


def test_the_objective_is_a_bound(name: str) -> None:
    """In expectation: over many copies of a row the mean objective is below log p(x)."""
    example = example_for(name)
    rows = torch.zeros(100, dtype=torch.int64)
    batch = Batch(example.batch.x[rows], torch.arange(100))
    estimator = built(name, example.model, batch)
    with torch.no_grad():
        log_likelihood = enumerated(example.model, example.batch).log_likelihood[0]
    objective = torch.stack([estimator(example.model, batch).objective for _ in range(20)]).mean()
    assert objective <= log_likelihood + 0.05
