"""What ARM, DisARM, ARMS and ARSM all promise besides their expectation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from helpers.antithetic_noise import recorded_noise, two_categorical_layers, with_noise
from helpers.exact_expectations import largest_difference
from helpers.small_models import EXAMPLES, Example, categorical, conditional, gradients, one_layer, repeated, two_layers
from jsa import Batch, BeliefNetwork, LatentSpace, LatentVariableModel, Layer
from jsa.estimators.antithetic import Antithetic, inside
from jsa.estimators.arm import ARM
from jsa.estimators.arms import ARMS
from jsa.estimators.arsm import ARSM
from jsa.estimators.disarm import DisARM

SUPPORTED: list[tuple[Callable[[], Antithetic], Callable[[], Example]]] = [
    *(
        (make, example)
        for make in (ARM, partial(ARM, particles=4), DisARM, ARMS, partial(ARMS, particles=4))
        for example in (one_layer, two_layers, conditional)
    ),
    (ARSM, categorical),
    (ARSM, two_categorical_layers),
]


def recorded_states(model: LatentVariableModel) -> list[tuple[Tensor, bool]]:
    """Filled with the states that the decoder is given from now on, and whether with a graph."""
    seen: list[tuple[Tensor, bool]] = []
    log_joint = model.log_joint

    def recording(batch: Batch, h: Tensor) -> Tensor:
        seen.append((h, torch.is_grad_enabled()))
        return log_joint(batch, h)

    model.log_joint = recording
    return seen


def test_every_small_model_of_bits_or_classes_is_supported() -> None:
    supported = {example().model.latent for _, example in SUPPORTED}
    assert {make().model.latent for make in EXAMPLES.values()} <= supported


@pytest.mark.parametrize(("make", "example"), SUPPORTED)
def test_gradient_reaches_every_parameter(make: Callable[[], Antithetic], example: Callable[[], Example]) -> None:
    model, batch = (example().model, example().batch)
    batch.x.requires_grad_()
    estimator = make()
    estimate = estimator(model, batch)
    estimate.loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name
    assert list(estimator.parameters()) == []
    assert not estimate.objective.requires_grad
    assert not estimate.log_weights.requires_grad


@pytest.mark.parametrize(("make", "example"), SUPPORTED)
def test_decoder_learns_from_the_states_alone(make: Callable[[], Antithetic], example: Callable[[], Example]) -> None:
    # The decoder's gradient is that of the mean of log p at the states it saw; the encoder's part adds nothing.
    model, batch = (example().model, example().batch)
    seen = recorded_states(model)
    found = gradients(model, make()(model, batch).loss)
    (states,) = (h for h, with_graph in seen if with_graph)
    names = [name for name, _ in model.named_parameters() if not name.startswith("inference")]
    expected = torch.autograd.grad(
        -model.log_joint(batch, states).mean(), [model.get_parameter(name) for name in names]
    )
    for name, gradient in zip(names, expected, strict=True):
        assert (found[name] - gradient).abs().max() < 1e-12


@pytest.mark.parametrize(
    ("make", "example", "states", "calls"),
    [
        (ARM, one_layer, 2, 1),
        (ARM, two_layers, 3, 1),
        (partial(ARM, particles=6), one_layer, 6, 1),
        (partial(DisARM, particles=4), two_layers, 6, 1),
        (partial(ARMS, particles=5), one_layer, 5, 1),
        (partial(ARMS, particles=5), two_layers, 9, 1),
        (ARSM, categorical, 4, 2),
        (ARSM, two_categorical_layers, 7, 2),
    ],
)
def test_decoder_evaluations(
    make: Callable[[], Antithetic], example: Callable[[], Example], states: int, calls: int
) -> None:
    model, batch = (example().model, example().batch)
    evaluated = recorded_states(model)
    encoded: list[int] = []
    posterior = model.posterior

    def counting(batch: Batch) -> object:
        encoded.append(len(batch))
        return posterior(batch)

    model.posterior = counting
    estimate = make()(model, batch)
    assert sum(h[..., 0].numel() for h, _ in evaluated) == states * len(batch)
    assert len(evaluated) == calls
    assert encoded == [len(batch)]
    assert estimate.log_weights.shape == (states, len(batch))


@pytest.mark.parametrize(("make", "example"), SUPPORTED)
def test_log_weights_are_those_of_the_states(make: Callable[[], Antithetic], example: Callable[[], Example]) -> None:
    model, batch = (example().model, example().batch)
    seen = recorded_states(model)
    estimate = make()(model, batch)
    h = torch.cat([states for states, _ in seen])
    expected = model.log_joint(batch, h) - model.posterior(batch).log_prob(h)
    assert (estimate.log_weights - expected).abs().max() < 1e-12
    assert abs(estimate.objective - expected.mean()) < 1e-12


@pytest.mark.parametrize(("make", "example"), SUPPORTED)
def test_rows_are_averaged_and_never_summed(make: Callable[[], Antithetic], example: Callable[[], Example]) -> None:
    model, batch = (example().model, example().batch)
    noise = recorded_noise(make(), example())
    once = gradients(model, with_noise(make(), noise)(model, batch).loss)
    again = [torch.cat([values] * 3, dim=2) for values in noise]
    thrice = gradients(model, with_noise(make(), again)(model, repeated(batch, 3)).loss)
    assert largest_difference(once, thrice) < 1e-12


@pytest.mark.parametrize(("make", "example"), SUPPORTED)
def test_single_precision_agrees_with_double(make: Callable[[], Antithetic], example: Callable[[], Example]) -> None:
    double = example()
    noise = recorded_noise(make(), double)
    expected = gradients(double.model, with_noise(make(), noise)(double.model, double.batch).loss)
    model = example().model.float()
    context = None if double.batch.context is None else double.batch.context.float()
    batch = Batch(double.batch.x.float(), double.batch.index, context)
    found = gradients(model, with_noise(make(), noise)(model, batch).loss)
    for name, gradient in expected.items():
        assert found[name].dtype == torch.float32
        assert (found[name] - gradient).abs().max() < 1e-4 * gradient.abs().max().clamp_min(1)


@pytest.mark.parametrize(("make", "example"), SUPPORTED)
def test_batch_of_one(make: Callable[[], Antithetic], example: Callable[[], Example]) -> None:
    model, batch = (example().model, example().batch.take(torch.tensor([1])))
    estimate = make()(model, batch)
    assert estimate.loss.shape == ()
    assert estimate.log_weights.shape[1:] == (1,)
    assert all(gradient.isfinite().all() for gradient in gradients(model, estimate.loss).values())


@pytest.mark.parametrize(("make", "example"), SUPPORTED)
def test_state_can_be_saved_and_restored(make: Callable[[], Antithetic], example: Callable[[], Example]) -> None:
    first, second = make(), make()
    model, batch = (example().model, example().batch)
    first(model, batch)
    second.load_state_dict(first.state_dict())
    found = []
    for estimator in (first, second):
        torch.manual_seed(3)
        found.append(gradients(model, estimator(model, batch).loss))
    assert largest_difference(*found) == 0


@pytest.mark.parametrize("extreme", [-200.0, -30.0, 30.0, 200.0])
@pytest.mark.parametrize("make", [ARM, DisARM, partial(ARMS, particles=4)])
def test_certain_bits_are_certain(
    make: Callable[[], Antithetic], extreme: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Random numbers of exactly 0 do come up in single precision, once in 2^24.
    monkeypatch.setattr(torch, "rand", lambda size, **options: torch.zeros(size, **options))
    model = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("bernoulli", 3)))
    (conditional_of_data,) = model.inference
    with torch.no_grad():
        conditional_of_data.network.layers[0].bias.fill_(extreme)
        conditional_of_data.network.layers[0].weight.zero_()
    batch = Batch(torch.ones(50, 4), torch.arange(50))
    seen = recorded_states(model)
    loss = make()(model, batch).loss
    ((states, _),) = seen
    assert (states == float(extreme > 0)).all()
    loss.backward()
    for parameter in model.inference.parameters():
        assert parameter.grad is not None
        assert (parameter.grad == 0).all()


def test_uniforms_and_their_complements_stay_inside() -> None:
    for dtype in (torch.float32, torch.float64):
        uniforms = inside(torch.tensor([0.0, 0.5, 1.0], dtype=dtype))
        for values in (uniforms, 1 - uniforms):
            assert (values > 0).all()
            assert (values < 1).all()
