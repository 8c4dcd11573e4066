"""What ARM, DisARM, ARMS and ARSM all promise besides their expectation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from unittest import mock

import pytest
import torch

from helpers.antithetic_noise import recorded_noise, with_noise
from helpers.methods import two_categorical_layers
from helpers.recorded_states import recorded_states
from helpers.small_models import (
    Example,
    categorical,
    conditional,
    first_linear,
    gradients,
    largest_difference,
    one_layer,
    two_layers,
)
from jsa import Batch, BeliefNetwork, LatentSpace, Layer
from jsa.estimators.antithetic import Antithetic, inside
from jsa.estimators.arm import ARM
from jsa.estimators.arms import ARMS
from jsa.estimators.arsm import ARSM
from jsa.estimators.disarm import DisARM
from jsa.testing.gradients import repeated

Make = Callable[[], Antithetic]
MakeExample = Callable[[], Example]

SUPPORTED: list[tuple[Make, MakeExample]] = [
    *(
        (make, example)
        for make in (ARM, partial(ARM, particles=4), DisARM, ARMS, partial(ARMS, particles=4))
        for example in (one_layer, two_layers, conditional)
    ),
    (ARSM, categorical),
    (ARSM, two_categorical_layers),
]


COSTS: list[tuple[Make, MakeExample, int, int]] = [
    (ARM, one_layer, 2, 1),
    (ARM, two_layers, 3, 1),
    (partial(ARM, particles=6), one_layer, 6, 1),
    (partial(DisARM, particles=4), two_layers, 6, 1),
    (partial(ARMS, particles=5), one_layer, 5, 1),
    (partial(ARMS, particles=5), two_layers, 9, 1),
    (ARSM, categorical, 4, 2),
    (ARSM, two_categorical_layers, 7, 2),
]


@pytest.mark.parametrize(("make", "example", "states", "calls"), COSTS)
def test_decoder_evaluations(make: Make, example: MakeExample, states: int, calls: int) -> None:
    model, batch = (example().model, example().batch)
    evaluated = recorded_states(model)
    with mock.patch.object(model, "posterior", wraps=model.posterior) as posterior:
        estimate = make()(model, batch)
    assert sum(h[..., 0].numel() for h, _ in evaluated) == states * len(batch)
    assert len(evaluated) == calls
    assert [len(call.args[0]) for call in posterior.call_args_list] == [len(batch)]
    assert estimate.log_weights.shape == (states, len(batch))


@pytest.mark.parametrize(("make", "example"), SUPPORTED)
def test_rows_are_averaged_and_never_summed(make: Make, example: MakeExample) -> None:
    model, batch = (example().model, example().batch)
    noise = recorded_noise(make(), example())
    once = gradients(model, with_noise(make(), noise)(model, batch).loss)
    again = [torch.cat([values] * 3, dim=2) for values in noise]
    thrice = gradients(model, with_noise(make(), again)(model, repeated(batch, 3)).loss)
    assert largest_difference(once, thrice) < 1e-12


@pytest.mark.parametrize("extreme", [-200.0, -30.0, 30.0, 200.0])
@pytest.mark.parametrize("make", [ARM, DisARM, partial(ARMS, particles=4)])
def test_certain_bits_are_certain(make: Make, extreme: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # Random numbers of exactly 0 do come up in single precision, once in 2^24.
    monkeypatch.setattr(torch, "rand", torch.zeros)
    model = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("bernoulli", 3)))
    with torch.no_grad():
        first_linear(model.inference).bias.fill_(extreme)
        first_linear(model.inference).weight.zero_()
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
