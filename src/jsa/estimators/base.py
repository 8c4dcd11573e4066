"""What every estimator is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from jsa.errors import UsageError
from jsa.model import LatentVariableModel
from jsa.types import Batch, Estimate


@dataclass(frozen=True)
class Description:
    """What an estimator says of itself.

    Attributes:
        optimises: The objective whose gradient it estimates.
        unbiased: Whether the gradient is unbiased for that, and under which condition.
        latents: Which kinds of latent variables it takes.
        decoder_evaluations: How many states a row costs a step, as a formula in the number n of particles.
        reference: The paper.
    """

    optimises: str
    unbiased: str
    latents: str
    decoder_evaluations: str
    reference: str


class Estimator(nn.Module, ABC):
    """A way to estimate the gradients of the model and of its inference model from a batch.

    It owns whatever it learns or remembers besides the model: baselines, control variates, chains.
    """

    description: ClassVar[Description]

    @abstractmethod
    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        """The estimate for a batch: one ``backward`` on its loss gives all gradients."""


def at_least(particles: int, minimum: int, name: str) -> int:
    """The number of particles, refused with a sentence where the method is not defined for it."""
    if particles < minimum:
        raise UsageError(f"{name} needs at least {minimum} particle{'s' * (minimum > 1)}, not {particles}")
    return particles
