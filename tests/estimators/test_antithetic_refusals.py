"""What ARM, DisARM, ARMS and ARSM refuse, and in which words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from helpers.antithetic_noise import PAIRS
from helpers.small_models import Example, categorical, one_layer, torch_posterior
from jsa import Batch, BeliefNetwork, LatentSpace, Layer
from jsa.errors import NumericalError, UsageError
from jsa.estimators.antithetic import Antithetic, AntitheticPairs
from jsa.estimators.arm import ARM
from jsa.estimators.arms import ARMS
from jsa.estimators.arsm import ARSM
from jsa.estimators.disarm import DisARM


def gaussian() -> Example:
    network = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("gaussian", 2)))
    return Example(network, Batch(torch.ones(2, 4), torch.arange(2)))


def mixed() -> Example:
    latent = LatentSpace.of(Layer("bernoulli", 2), Layer("categorical", 2, classes=3))
    return Example(BeliefNetwork(Layer("bernoulli", 4), latent), Batch(torch.ones(2, 4), torch.arange(2)))


@pytest.mark.parametrize("kind", [ARM, DisARM, ARMS])
@pytest.mark.parametrize(
    ("example", "latents"), [(categorical, "categorical"), (mixed, "categorical"), (gaussian, "gaussian")]
)
def test_bits_are_asked_for(kind: type[Antithetic], example: Callable[[], Example], latents: str) -> None:
    sentence = f"^{kind.__name__} is for bernoulli latents, not {latents} ones: use arsm .* vimco, rloo or jsa$"
    with pytest.raises(UsageError, match=sentence):
        kind()(example().model, example().batch)


@pytest.mark.parametrize(
    ("example", "latents"), [(one_layer, "bernoulli"), (mixed, "bernoulli"), (gaussian, "gaussian")]
)
def test_classes_are_asked_for(example: Callable[[], Example], latents: str) -> None:
    sentence = f"^ARSM is for categorical latents, not {latents} ones: use arm or disarm .* vimco, rloo or jsa$"
    with pytest.raises(UsageError, match=sentence):
        ARSM()(example().model, example().batch)


@pytest.mark.parametrize("kind", [ARM, DisARM, ARMS])
def test_posterior_without_logits_is_refused(kind: type[Antithetic]) -> None:
    example = torch_posterior()
    with pytest.raises(UsageError, match=r"LayeredPosterior, which a TorchPosterior is not: use vimco, rloo or jsa$"):
        kind()(example.model, example.batch)


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("particles", [-2, 0, 1, 3])
def test_pairs_need_an_even_number(kind: type[AntitheticPairs], particles: int) -> None:
    with pytest.raises(UsageError, match=f"even number of particles, at least 2, not {particles}$"):
        kind(particles)


def test_arms_needs_two_particles() -> None:
    with pytest.raises(UsageError, match="ARMS needs at least 2 particles, not 1"):
        ARMS(1)


@pytest.mark.parametrize("make", [ARM, DisARM, ARMS])
def test_signal_that_is_no_number_is_named(make: Callable[[], Antithetic]) -> None:
    example = one_layer()
    log_joint = example.model.log_joint

    def broken(batch: Batch, h: Tensor) -> Tensor:
        value = log_joint(batch, h)
        return torch.where(torch.arange(len(batch)) == 1, torch.nan, value)

    example.model.log_joint = broken
    with pytest.raises(NumericalError, match="log_joint is nan at row 1"):
        make()(example.model, example.batch)
