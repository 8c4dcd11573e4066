"""What every estimator is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from jsa.batch import Batch, Estimate
from jsa.chains import ChainCache
from jsa.errors import UsageError
from jsa.latent import LatentSpace
from jsa.model import LatentVariableModel
from jsa.model_calls import EvaluatedStates, evaluate, posterior_of


class Stage(IntEnum):
    """Where the chains start at a visit."""

    FRESH = 1
    """Stage I: from a draw of q. The cache is written and not read."""
    PERSISTENT = 2
    """Stage II: from the cached state; a row that was never visited starts from q."""


@dataclass(frozen=True)
class Description:
    """What an estimator says of itself.

    Attributes:
        optimizes: The objective whose gradient it estimates.
        unbiased: Whether the gradient is unbiased for that, and under which condition.
        latents: Which kinds of latent variables it takes.
        decoder_evaluations: How many states a row costs a step, as a formula in the number n of particles.
        reference: The paper.
    """

    optimizes: str
    unbiased: str
    latents: str
    decoder_evaluations: str
    reference: str


class Estimator(nn.Module, ABC):
    """A way to estimate the gradients of the model and of its inference model from a batch.

    It owns whatever it learns or remembers besides the model: baselines, control variates, chains.
    """

    description: ClassVar[Description]
    bookkeeping: ClassVar[tuple[str, ...]] = ()
    """Entries of the state_dict that it does not learn, such as the stage of chains."""
    keeps_chains: ClassVar[bool] = False
    """Whether its instances have ``chains``."""
    chains: ChainCache | None = None
    """One persistent state for each row of the training data, None for a method without chains."""

    @property
    def stage(self) -> Stage | None:
        """Where the chains start at a visit, None for a method without chains; assign it to switch."""
        return None

    @stage.setter
    def stage(self, stage: Stage | int) -> None:
        raise UsageError(f"{type(self).__name__} has no chains and so no stages: leave the stage alone")

    @property
    def learns(self) -> bool:
        """Whether it learns something beside the model, such as baselines, and so is not the same at every run."""
        return any(name not in self.bookkeeping for name in self.state_dict())

    @abstractmethod
    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        """The estimate for a batch: one ``backward`` on its loss gives all gradients."""


def at_least(particles: int, minimum: int, name: str) -> int:
    """The number of particles, refused with a sentence where the method is not defined for it."""
    if particles < minimum:
        raise UsageError(f"{name} needs at least {minimum} particle{'s' * (minimum > 1)}, not {particles}")
    return particles


def space_of(latent: LatentSpace, name: str) -> LatentSpace:
    """What a state is made of, refused with a sentence where something else was given, such as the model."""
    if not isinstance(latent, LatentSpace):
        raise UsageError(f"{name} asks what a state is made of, model.latent, and was given a {type(latent).__name__}")
    return latent


def inputs_of(batch: Batch, width: int, name: str) -> Float[Tensor, "batch inputs"]:
    """What the networks of a method see of a batch, refused where they were made for another width."""
    inputs = batch.inputs
    if inputs.shape[-1] != width:
        raise UsageError(
            f"{name} was made with inputs={width}, and x with its context has {inputs.shape[-1]} numbers a row: make "
            "it with inputs=batch.inputs.shape[-1]"
        )
    return inputs


def score_samples(model: LatentVariableModel, batch: Batch, particles: int) -> EvaluatedStates:
    """Draws so many states a row, with one differentiable pass over them."""
    posterior = posterior_of(model, batch)
    return evaluate(model, batch, posterior, *posterior.sample_with_log_prob((particles,)))
