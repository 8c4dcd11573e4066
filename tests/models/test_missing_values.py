"""Values that are missing: the models sum over them, and every method learns from the values that are there."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest
import torch
from torch import Tensor

from helpers.methods import estimator_of
from helpers.missing_rows import GAPS, completions, observed, with_gaps
from helpers.small_models import Example, enumerated, logits_of, one_layer
from jsa import Batch, BeliefNetwork, Bernoulli, Gaussian, LatentSpace, Layer, StructuredPrediction, check_model
from jsa.distributions import Factorized, factorized
from jsa.errors import NumericalError, UsageError
from jsa.estimators import ReweightedWakeSleep
from jsa.estimators.registry import ESTIMATORS


@pytest.fixture(params=GAPS)
def example(request: pytest.FixtureRequest) -> Example:
    return with_gaps(request.param)


def test_the_joint_sums_over_what_is_missing(example: Example) -> None:
    model = example.model
    found = enumerated(model, example.batch).log_joint
    for row in range(len(example.batch)):
        batch = completions(example, row)
        h = model.latent.enumerate(torch.float64).unsqueeze(1).expand(-1, len(batch), -1)
        expected = model.log_joint(batch, h).logsumexp(1)
        assert torch.allclose(found[:, row], expected, atol=1e-12, rtol=0)


def test_gradients_are_those_of_the_values_that_are_there(example: Example) -> None:
    model = example.model

    def objective(batch: Batch) -> Tensor:
        return enumerated(model, batch).log_likelihood

    generative = [parameter for name, parameter in model.named_parameters() if "inference" not in name]
    found = torch.autograd.grad(objective(example.batch).sum(), generative)
    rows = [objective(completions(example, row)).logsumexp(0) for row in range(len(example.batch))]
    for one, other in zip(found, torch.autograd.grad(torch.stack(rows).sum(), generative), strict=True):
        assert (one - other).abs().max() < 1e-12


def test_a_zero_in_the_place_of_what_is_missing_is_another_row(example: Example) -> None:
    """The twin that fills gaps with zeros: both p and q tell them from zeros."""
    x, layer = example.batch.x.nan_to_num(0), observed(example)
    if layer.kind == "categorical":
        # The first class in the place of each gap.
        by_variable = len(x), layer.variables, layer.classes
        x.view(by_variable)[..., 0] += example.batch.x.isnan().view(by_variable).all(-1)
    right, wrong = (enumerated(example.model, batch) for batch in (example.batch, replace(example.batch, x=x)))
    gaps = example.batch.x.isnan().any(-1)
    assert bool(((right.log_joint - wrong.log_joint).abs().amax(0)[gaps] > 1e-2).all())
    assert bool(((right.log_inference - wrong.log_inference).abs().amax(0)[gaps] > 1e-2).all())


def test_a_complete_row_is_as_without_gaps() -> None:
    plain, open_to_gaps = one_layer(), one_layer(missing=True)
    shared = {name: value for name, value in plain.model.state_dict().items() if "inference" not in name}
    open_to_gaps.model.load_state_dict(shared, strict=False)
    one, other = (enumerated(some.model, some.batch).log_joint for some in (plain, open_to_gaps))
    assert torch.allclose(one, other, atol=1e-12, rtol=0)


@pytest.mark.parametrize("indicators", [True, False])
def test_what_was_never_missing_is_a_zero_to_a_new_inference_network(indicators: bool) -> None:
    # In a network that has learned, random weights of what it has not seen would speak.
    latent = LatentSpace.of(Layer("bernoulli", 3))
    for model in (
        BeliefNetwork(Layer("bernoulli", 4), latent, (5,), missing=True, indicators=indicators),
        StructuredPrediction(Layer("bernoulli", 4), 2, latent, (5,), missing=True, indicators=indicators),
    ):
        x, context = torch.tensor([[1.0, torch.nan, 0.0, 1.0], [torch.nan, 1.0, 1.0, 1.0]]), torch.ones(2, 2)
        batches = (Batch(values, torch.arange(2), context) for values in (x, x.nan_to_num(0)))
        gaps, zeros = (logits_of(Example(model, batch).layers) for batch in batches)
        assert torch.equal(gaps, zeros)


def test_without_indicators_the_network_is_that_of_complete_rows() -> None:
    latent = LatentSpace.of(Layer("bernoulli", 3))
    torch.manual_seed(0)
    plain = BeliefNetwork(Layer("bernoulli", 4), latent, (5,))
    torch.manual_seed(0)
    open_to_gaps = BeliefNetwork(Layer("bernoulli", 4), latent, (5,), missing=True, indicators=False)
    for name, value in plain.state_dict().items():
        assert torch.equal(open_to_gaps.state_dict()[name], value)


class OfSomebodyElse(Bernoulli):
    """A distribution that was written before there were gaps."""

    leaving_out = Factorized.leaving_out


def test_a_distribution_that_cannot_leave_out_says_so() -> None:
    with pytest.raises(UsageError, match="OfSomebodyElse does not support missing values: define its"):
        OfSomebodyElse(torch.zeros(2)).leaving_out(torch.tensor([True, False]))


@pytest.mark.parametrize("layer", [Layer("bernoulli", 4), Layer("categorical", 4, 3), Layer("gaussian", 4)], ids=str)
def test_log_prob_has_nothing_of_what_is_missing(layer: Layer) -> None:
    parameters = torch.randn(layer.parameters, generator=torch.Generator().manual_seed(0))
    distribution = factorized(layer, parameters)
    x = distribution.sample()
    missing = torch.tensor([False, True, False, True]).repeat_interleave(layer.width // 4)
    there = ~missing.repeat(layer.parameters // layer.width)
    two = factorized(replace(layer, variables=2), parameters[there])
    found = distribution.leaving_out(missing).log_prob(x.masked_fill(missing, 0))
    assert torch.allclose(found, two.log_prob(x[~missing]), atol=1e-6, rtol=0)
    nothing = torch.ones_like(missing)
    assert float(distribution.leaving_out(nothing).log_prob(torch.zeros_like(x)).abs()) < 1e-12


def test_gaussian_observations_may_have_gaps() -> None:
    model = BeliefNetwork(Layer("gaussian", 3), LatentSpace.of(Layer("bernoulli", 2)), missing=True)
    batch = Batch(torch.tensor([[0.3, torch.nan, -1.0], [torch.nan, 2.0, 0.0]]), torch.arange(2))
    check_model(model, batch)
    h = torch.ones(2, 2)
    with torch.no_grad():
        found = model.log_joint(batch, h) - model.prior.log_prob(h)
        observation = model.observation(h)
    assert isinstance(observation, Gaussian)
    normal = torch.distributions.Normal(observation.mean, observation.log_scale.exp())
    expected = normal.log_prob(batch.x.nan_to_num(0)).masked_fill(batch.x.isnan(), 0).sum(-1)
    assert torch.allclose(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_every_method_learns_from_rows_with_gaps(name: str) -> None:
    example = with_gaps("categorical" if name == "arsm" else "two-layers" if name == "nvil" else "one-layer")
    estimator = estimator_of(name, example.model, example.batch)
    estimate = estimator(example.model, example.batch)
    assert bool(estimate.log_weights.isfinite().all())
    found = torch.autograd.grad(estimate.loss, [*example.model.parameters(), *estimator.parameters()])
    assert all(bool(gradient.isfinite().all()) for gradient in found)


def test_dreams_have_the_gaps_of_their_rows() -> None:
    example = with_gaps("two-layers")
    with mock.patch.object(example.model, "posterior", wraps=example.model.posterior) as posterior:
        ReweightedWakeSleep(particles=2, sleep=0.5)(example.model, example.batch).loss.backward()
    assert posterior.call_count == 2
    assert all(torch.equal(call.args[0].x.isnan(), example.batch.x.isnan()) for call in posterior.call_args_list)


def test_a_model_that_does_not_expect_gaps_says_so() -> None:
    example = one_layer()
    batch = replace(example.batch, x=with_gaps("one-layer").batch.x)
    with pytest.raises(NumericalError, match=r"is nan at row 0"):
        estimator_of("vimco", example.model, batch)(example.model, batch)
