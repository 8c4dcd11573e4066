"""Antithetic estimators whose noise a test chooses, and what else their tests share."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from helpers.small_models import STYLE, Example, randomize
from jsa import Batch, BeliefNetwork, LatentSpace, Layer
from jsa.estimators.antithetic import Antithetic
from jsa.estimators.arm import ARM
from jsa.estimators.disarm import DisARM

PAIRS = [ARM, DisARM]


def two_categorical_layers(seed: int = 5) -> Example:
    """A variable of three classes above two variables of three classes."""
    latent = LatentSpace.of(Layer("categorical", 2, classes=3), Layer("categorical", 1, classes=3))
    network = BeliefNetwork(Layer("bernoulli", 4), latent, (5,), prior="learned", style=STYLE)
    x = torch.tensor([[0, 1, 1, 0], [1, 1, 0, 1]], dtype=torch.float64)
    return Example(randomize(network, seed), Batch(x, torch.arange(2)))


def with_noise(estimator: Antithetic, noises: Iterable[Tensor]) -> Antithetic:
    """The estimator with the noise of its layers given, one after the other."""
    remaining = iter(noises)
    estimator.noise = lambda layer, batch, like: next(remaining).to(like.dtype)
    return estimator


def recorded_noise(estimator: Antithetic, example: Example) -> list[Tensor]:
    """Some noise for the layers of a model, as the estimator draws it."""
    like = torch.zeros((), dtype=torch.float64)
    return [estimator.noise(layer, len(example.batch), like) for layer in example.model.latent.layers]
