"""Antithetic estimators whose noise a test chooses, and what else their tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from helpers.small_models import Example
from jsa.estimators.antithetic import Antithetic, AntitheticPairs
from jsa.estimators.arm import ARM
from jsa.estimators.disarm import DisARM

PAIRS: list[Callable[[], AntitheticPairs]] = [ARM, DisARM]


def with_noise(estimator: Antithetic, noises: Iterable[Tensor]) -> Antithetic:
    """The estimator with the noise of its layers given, one after the other."""
    remaining = iter(noises)
    vars(estimator)["noise"] = lambda layer, batch, like: next(remaining).to(like.dtype)
    return estimator


def recorded_noise(estimator: Antithetic, example: Example) -> list[Tensor]:
    """Some noise for the layers of a model, as the estimator draws it."""
    like = torch.zeros((), dtype=torch.float64)
    return [estimator.noise(layer, len(example.batch), like) for layer in example.model.latent.layers]
