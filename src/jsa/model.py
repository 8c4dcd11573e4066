"""The interface of a model to an estimator: the joint density and the inference model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from jsa.batch import Batch
from jsa.io.arguments import Arguments
from jsa.latent import LatentSpace
from jsa.saved_models import load_model, save_model


@runtime_checkable
class Posterior(Protocol):
    """The inference model q(h | x) of a batch: anything with these two methods."""

    def sample(self, shape: tuple[int, ...], /) -> Float[Tensor, "*samples batch width"]:
        """Draw states of shape (*shape, batch, width); any gradient of theirs is cut off."""
        ...

    def log_prob(self, h: Float[Tensor, "*samples batch width"], /) -> Float[Tensor, "*samples batch"]:
        """Return the log-probability of states, one for each row of the batch."""
        ...


class LatentVariableModel(nn.Module, ABC):
    """A model p(x, h) with its inference model q(h | x): subclass it, set ``latent``, and write the two methods.

    States have single or double precision. Autocast needs nothing more; a network with weights in half precision
    needs ``h.to(...)`` in ``log_joint``.

    Attributes:
        latent: The space of the states h.
        relaxable: Whether ``log_joint`` and the posterior's conditionals accept values between the states of discrete
            variables, such as 0.3 for a bit. Methods that relax them or expand about a mean need it.
    """

    latent: LatentSpace
    relaxable: bool = False
    _constructor_arguments: Arguments

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        model = super().__new__(cls)
        # Here, because a constructor may change what it is given. torch's own __setattr__ is not ready yet.
        vars(model)["_constructor_arguments"] = Arguments.of(cls, args, kwargs)
        return model

    @abstractmethod
    def log_joint(self, batch: Batch, h: Float[Tensor, "*samples batch width"]) -> Float[Tensor, "*samples batch"]:
        """Return log p(x, h), or log p(x, h | context): one number for each state, with the rows of the batch last."""

    @abstractmethod
    def posterior(self, batch: Batch) -> Posterior:
        """Return q(h | x) for each row of the batch, from one pass of the inference network for all draws."""

    def save(self, path: Path | str) -> None:
        """Write the weights and the constructor arguments to a file, as ``jsa.save_model`` does."""
        save_model(self, path)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Make a model of this class from a file of ``save``, as ``jsa.load_model`` does."""
        return load_model(cls, path)


class Observation(Protocol):
    """p(x | h) of some states: a distribution of jsa, one of torch.distributions, or anything with these two."""

    @property
    def mean(self) -> Tensor:
        """The expected x of each state: probabilities for discrete variables."""
        ...

    def sample(self) -> Tensor:
        """Draw an x for each state from torch's global generator."""
        ...


@runtime_checkable
class Generative(Protocol):
    """A model that can also be sampled, for samples and reconstructions."""

    def sample_latent(self, shape: tuple[int, ...], context: Tensor | None = None) -> Float[Tensor, "*samples width"]:
        """Draw states from the prior, of shape (*shape, width), or (*shape, batch, width) given a context."""
        ...

    def observation(self, h: Float[Tensor, "*samples width"], context: Tensor | None = None) -> Observation:
        """Return p(x | h), or p(x | h, context). ``check_model`` compares it with ``log_joint`` if it is Factorized."""
        ...


@runtime_checkable
class LayeredJoint(Protocol):
    """A model whose joint density is a sum of terms that the layers fix one after the other."""

    def log_joint_terms(
        self, batch: Batch, h: Float[Tensor, "*samples batch width"]
    ) -> list[Float[Tensor, "*samples batch"]]:
        """Return the terms of ``log_joint``: layers 0 ... i fix term i, and all layers together the last one."""
        ...
