"""What an estimator sees of a model: the joint density and the inference model, and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from jsa.batch import Batch
from jsa.distributions import Factorized
from jsa.latent import LatentSpace


@runtime_checkable
class Posterior(Protocol):
    """The inference model q(h | x) of a batch: anything with these two methods."""

    def sample(self, shape: tuple[int, ...], /) -> Float[Tensor, "*samples batch width"]:
        """Draws of shape (*shape, batch, width); a gradient that they might carry is cut off."""
        ...

    def log_prob(self, h: Float[Tensor, "*samples batch width"], /) -> Float[Tensor, "*samples batch"]:
        """The log-probability of states, one for each row of the batch."""
        ...


class LatentVariableModel(nn.Module, ABC):
    """A model p(x, h) with its inference model q(h | x): subclass it, say what h is, write the two methods.

    States come in single precision or double. Under autocast nothing is to be done about it; a network whose own
    weights are in half precision needs ``h.to(...)`` in ``log_joint``.

    Attributes:
        latent: What a state h is made of.
        relaxable: Whether ``log_joint`` and the posterior's conditionals take discrete variables with values between
            the states, such as 0.3 for a bit: methods that relax them or expand about a mean ask for it.
    """

    latent: LatentSpace
    relaxable: bool = False

    @abstractmethod
    def log_joint(self, batch: Batch, h: Float[Tensor, "*samples batch width"]) -> Float[Tensor, "*samples batch"]:
        """log p(x, h), or log p(x, h | context): one number for each state, the rows of the batch last."""

    @abstractmethod
    def posterior(self, batch: Batch) -> Posterior:
        """q(h | x) for each row of the batch: one pass of the inference network, shared by all draws."""


@runtime_checkable
class Generative(Protocol):
    """A model that can also be drawn from: for samples and reconstructions."""

    def sample_latent(self, shape: tuple[int, ...], context: Tensor | None = None) -> Float[Tensor, "*samples width"]:
        """Latent states from the prior: of shape (*shape, width), or (*shape, batch, width) given a context."""
        ...

    def observation(self, h: Float[Tensor, "*samples width"], context: Tensor | None = None) -> Factorized:
        """p(x | h), or p(x | h, context)."""
        ...


@runtime_checkable
class LayeredJoint(Protocol):
    """A model whose joint density falls into terms that the layers fix one after the other."""

    def log_joint_terms(
        self, batch: Batch, h: Float[Tensor, "*samples batch width"]
    ) -> list[Float[Tensor, "*samples batch"]]:
        """The terms of ``log_joint``: term i is fixed as soon as layers 0 ... i are drawn, the last one with all."""
        ...
