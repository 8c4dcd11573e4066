"""What every method promises at every small model that it takes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from helpers.extreme_models import in_precision
from helpers.methods import BITS_ONLY, CLASSES_ONLY, NAMES, PAIRS, SMALL_MODELS, Options, estimator_of, models_of
from helpers.recorded_states import recorded_states
from helpers.small_models import Example, Wrapped
from jsa import Batch, Estimator, Factorized, Posterior
from jsa.estimators.registry import ESTIMATORS
from jsa.relaxation import LatentConditionals
from jsa.testing import check_estimator

LEARNING = {"nvil", "rebar", "relax"}
"""The methods that have parameters of their own."""

ELBO = {*BITS_ONLY, *CLASSES_ONLY, "reinforce", "rloo", "rebar", "relax", "muprop"}
"""The methods that give the generative model the gradient of log p at their draws, all alike."""


class Pair:
    """A method and a small model."""

    def __init__(self, name: str, model: str, options: Options) -> None:
        self.name, self.options = name, options
        example = SMALL_MODELS[model]()
        self.model, self.batch = example.model, example.batch
        self.estimator = self.built()

    def built(self, seed: int = 0) -> Estimator:
        """Another estimator like it, from this seed."""
        return estimator_of(self.name, self.model, self.batch, seed=seed, **self.options)


def pairs(*, where: Callable[[str, str], bool] = lambda name, model: True) -> pytest.MarkDecorator:
    """Parametrize a test by the pairs of a method and a small model for which it holds."""
    chosen = [pair for pair in PAIRS if where(*pair[:2])]
    ids = [
        ", ".join([name, model, *(f"{key}={value}" for key, value in options.items())])
        for name, model, options in chosen
    ]
    return pytest.mark.parametrize("pair", chosen, ids=ids, indirect=True)


@pytest.fixture
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(*request.param)


EVERY = pairs()
METHOD = pairs(where=lambda name, model: model == models_of(name)[0])
"""Each method once: the promise costs more, or does not depend on the model."""


@EVERY
def test_it_keeps_what_every_method_promises(pair: Pair) -> None:
    check_estimator(pair.estimator, pair.model, pair.batch)


@EVERY
def test_every_parameter_learns_in_every_step(pair: Pair) -> None:
    assert (pair.name in LEARNING) == (len(list(pair.estimator.parameters())) > 0)
    pair.estimator(pair.model, pair.batch).loss.backward()
    for name, parameter in (*pair.model.named_parameters(), *pair.estimator.named_parameters()):
        assert parameter.grad is not None, name
        assert parameter.grad.norm() > 0, name


# torch.bernoulli draws other numbers in other precisions.
@pairs(where=lambda name, model: model != "torch-posterior")
def test_single_precision_agrees_with_double(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the same draws: both precisions see random numbers that single precision can hold."""
    uniform, exponential = torch.rand, Tensor.exponential_

    def single(*size: object, dtype: torch.dtype | None = None, **rest: object) -> Tensor:
        return uniform(*size, dtype=torch.float32, **rest).to(dtype or torch.float32)  # type: ignore[call-overload]

    found = []
    for dtype in (torch.float64, torch.float32):
        model, batch = in_precision(Example(pair.model, pair.batch), dtype)
        estimator = copy.deepcopy(pair.estimator).to(dtype)
        with monkeypatch.context() as patch:
            patch.setattr(torch, "rand", single)
            patch.setattr(Tensor, "exponential_", lambda empty: empty.copy_(exponential(empty.float())))
            torch.manual_seed(2)
            loss = estimator(model, batch).loss
        assert loss.dtype == dtype
        parameters = [*model.parameters(), *estimator.parameters()]
        found.append([gradient.double() for gradient in torch.autograd.grad(loss, parameters)])
    for exact, rounded in zip(*found, strict=True):
        torch.testing.assert_close(rounded, exact, rtol=1e-3, atol=1e-4)
        assert (rounded - exact).abs().max() < 1e-4 * exact.abs().max().clamp_min(1)
    exact, rounded = (torch.cat([gradient.flatten() for gradient in every]) for every in found)
    assert (rounded - exact).norm() < 1e-4 * exact.norm()


class OfPictures(Wrapped):
    """A model that is given its observations in another shape."""

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return self.model.log_joint(replace(batch, x=batch.x.flatten(1)), h)

    def posterior(self, batch: Batch) -> Posterior:
        return self.model.posterior(replace(batch, x=batch.x.flatten(1)))


class OfPicturesThatTellsItsPrior(OfPictures):
    """Likewise, for methods that relax the prior."""

    def latent_conditionals(self, batch: Batch, h: Tensor) -> list[Factorized]:
        assert isinstance(self.model, LatentConditionals)
        return self.model.latent_conditionals(batch, h)


@METHOD
def test_an_observation_may_have_any_shape(pair: Pair) -> None:
    kind = OfPicturesThatTellsItsPrior if isinstance(pair.model, LatentConditionals) else OfPictures
    pictures = replace(pair.batch, x=pair.batch.x.unflatten(1, (2, 1, -1)))
    losses = []
    for model, batch in ((pair.model, pair.batch), (kind(pair.model), pictures)):
        torch.manual_seed(1)
        losses.append(copy.deepcopy(pair.estimator)(model, batch).loss)
    assert torch.allclose(losses[0], losses[1], atol=1e-12, rtol=0)


@pairs(where=lambda name, model: name in ELBO)
def test_draws_give_the_bound_and_the_gradient_of_the_generative_model(pair: Pair) -> None:
    """Both follow from the states that the decoder saw; the encoder's part adds nothing to theta."""
    seen = recorded_states(pair.model)
    theta = [parameter for name, parameter in pair.model.named_parameters() if "inference" not in name]
    estimate = pair.estimator(pair.model, pair.batch)
    found = torch.autograd.grad(estimate.loss, theta)
    drawn = [(h, graph) for h, graph in seen if pair.model.latent.contains(h)]
    h = torch.cat([states for states, _ in drawn])
    log_weights = pair.model.log_joint(pair.batch, h) - pair.model.posterior(pair.batch).log_prob(h)
    torch.testing.assert_close(estimate.log_weights, log_weights, rtol=0, atol=1e-12)
    assert abs(estimate.objective - log_weights.mean()) < 1e-12
    ((differentiated, _),) = ((states, graph) for states, graph in drawn if graph)
    expected = torch.autograd.grad(-pair.model.log_joint(pair.batch, differentiated).mean(), theta)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@METHOD
def test_the_objective_is_a_bound(pair: Pair) -> None:
    """In expectation: over many copies of a row the mean objective is below log p(x)."""
    rows = torch.zeros(100, dtype=torch.int64)
    taken = pair.batch.take(rows)
    batch = Batch(taken.x, torch.arange(100), taken.context)
    estimator = estimator_of(pair.name, pair.model, batch, seed=0, **pair.options)
    with torch.no_grad():
        log_likelihood = Example(pair.model, pair.batch).exact.log_likelihood[0]
        objective = torch.stack([estimator(pair.model, batch).objective for _ in range(20)]).mean()
    assert objective <= log_likelihood + 0.05


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_is(name: str) -> None:
    about = ESTIMATORS[name].description
    assert all(getattr(about, field) for field in about.__dataclass_fields__)
    documentation = ESTIMATORS[name].__doc__
    assert documentation is not None
    assert "References:" in documentation or about.reference == "this library"


def test_the_table_is_of_every_method_and_every_model() -> None:
    assert {name for name, *_ in PAIRS} == set(ESTIMATORS)
    assert {model for _, model, _ in PAIRS} == set(SMALL_MODELS)
