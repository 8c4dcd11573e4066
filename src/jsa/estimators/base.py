"""The base class of all estimators, and checks that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from jsa.batch import Batch, Estimate
from jsa.chains import ChainCache
from jsa.errors import UsageError, shortened
from jsa.io.arguments import by_name
from jsa.kernels import Kernel
from jsa.latent import LatentSpace
from jsa.model import LatentVariableModel
from jsa.model_calls import EvaluatedStates, evaluate, posterior_of


class Stage(IntEnum):
    """The start of a chain when its row is visited."""

    FRESH = 1
    """Stage I: a draw of q. The cache is written and not read."""
    PERSISTENT = 2
    """Stage II: the cached state; a row that was never visited starts from a draw of q."""


@dataclass(frozen=True)
class Description:
    """A summary of an estimator for tables and lists.

    Attributes:
        optimizes: The objective whose gradient it estimates.
        unbiased: Whether the gradient is unbiased for it, and under which condition.
        latents: The kinds of latent variables that it supports.
        decoder_evaluations: The number of states evaluated per row and step, as a formula in the number n of particles.
        reference: The paper.
    """

    optimizes: str
    unbiased: str
    latents: str
    decoder_evaluations: str
    reference: str


class Estimator(nn.Module, ABC):
    """An estimator of the gradients of the model and of its inference model from a batch.

    It owns everything that it learns or remembers besides the model: baselines, control variates, chains.
    """

    description: ClassVar[Description]
    bookkeeping: ClassVar[tuple[str, ...]] = ()
    """Buffers that are not learned."""
    keeps_chains: ClassVar[bool] = False
    """Whether instances have ``chains``."""
    chains: ChainCache | None = None
    """One persistent state for each row of the training data; None for a method without chains."""
    _made_with: Mapping[str, str]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        estimator = super().__new__(cls)
        taken = by_name(cls, args, kwargs) or {}
        # As text, which keeps nothing alive and stays as it was.
        vars(estimator)["_made_with"] = {name: _in_brief(value) for name, (value, _) in taken.items()}
        return estimator

    def __repr__(self) -> str:
        """Return one line with what the method was made with, as it is now where an attribute has that name."""
        parts = []
        for name, made_with in self._made_with.items():
            now = _in_brief(getattr(self, name)) if hasattr(self, name) else made_with
            if now:
                parts.append(now if name == "latent" else f"{name}={now}")
        return f"{type(self).__name__}({', '.join(parts)})"

    @property
    def stage(self) -> Stage | None:
        """The start of a chain when its row is visited; None for a method without chains. Assign to it to switch."""
        return None

    @stage.setter
    def stage(self, stage: Stage | int) -> None:
        raise UsageError(f"{type(self).__name__} has no chains and so no stages: do not set its stage")

    @property
    def learns(self) -> bool:
        """Whether it learns anything besides the model, such as baselines, and so depends on the run."""
        return any(name not in self.bookkeeping for name, _ in chain(self.named_parameters(), self.named_buffers()))

    if TYPE_CHECKING:
        # torch declares that a call returns anything.
        def __call__(self, model: LatentVariableModel, batch: Batch) -> Estimate: ...

    @abstractmethod
    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        """Return the estimate for a batch: one ``backward`` on its loss gives all gradients."""

    def estimate_from(
        self, model: LatentVariableModel, batch: Batch, initial: Float[Tensor, "batch width"] | None
    ) -> Estimate:
        """Return the estimate for chains that start from these states, or from draws of q, and store nothing.

        Methods without chains have no states to start from.
        """
        return self(model, batch)


def _in_brief(value: object) -> str:
    """Return a value in a few words, and no words for None."""
    if value is None:
        return ""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Kernel):
        return repr(value)
    plain = isinstance(value, bool | int | float | LatentSpace | PurePath | torch.device | torch.dtype)
    if plain or isinstance(value, str):
        return shortened(value if plain else repr(value))
    if isinstance(value, tuple | list):
        return shortened(f"({', '.join(map(_in_brief, value))})")
    if isinstance(value, dict):
        return shortened(", ".join(f"{name}={_in_brief(item)}" for name, item in value.items()))
    return type(value).__name__


def at_least(particles: int, minimum: int, name: str) -> int:
    """Return the number of particles, or refuse one for which the method is not defined."""
    if particles < minimum:
        raise UsageError(f"{name} needs at least {minimum} particle{'s' * (minimum > 1)}, not {particles}")
    return particles


def follow(running: Tensor, value: Tensor, weight: float) -> None:
    """Move a running mean towards a value; one that is not finite does not count, for its step is skipped."""
    value = value.to(running.dtype)
    running.lerp_(torch.where(value.isfinite(), value, running), weight)


def mean_signal(batch: Batch, signal: Float[Tensor, "*samples batch"]) -> Float[Tensor, ""]:
    """Return the mean of a signal by the weights of the rows, for a baseline; NaN if all weights are zero."""
    return batch.mean(signal) / batch.mean(torch.ones_like(signal))


def space_of(latent: LatentSpace, name: str) -> LatentSpace:
    """Return the latent space, or refuse another object, such as the model."""
    if not isinstance(latent, LatentSpace):
        raise UsageError(f"{name} needs a LatentSpace, not {type(latent).__name__}: pass model.latent")
    return latent


def inputs_of(batch: Batch, width: int, name: str) -> Float[Tensor, "batch inputs"]:
    """Return the inputs of a method's networks, or refuse a batch of another width than they were made for."""
    inputs = batch.inputs
    if inputs.shape[-1] != width:
        raise UsageError(
            f"{name} was made with inputs={width}, but x with its context has {inputs.shape[-1]} numbers per row: make "
            "it with inputs=batch.inputs.shape[-1]"
        )
    return inputs


def score_samples(model: LatentVariableModel, batch: Batch, particles: int) -> EvaluatedStates:
    """Draw this many states per row and evaluate them in one differentiable pass."""
    posterior = posterior_of(model, batch)
    return evaluate(model, batch, posterior, *posterior.sample_with_log_prob((particles,)))
