"""Factorised distributions over the variables of one layer.

They follow torch.distributions in spirit and leave out what costs time in an inner loop. All randomness enters
through ``from_uniforms``, one uniform a variable, so that draws can be repeated, tested exactly, and tied to a row.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Self

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from jsa.careful import refuse_wrong_vectors
from jsa.errors import UsageError
from jsa.latent import Layer
from jsa.softplus import softplus_sum
from jsa.types import HALVES

RAREST = 2.0**-25
"""Probabilities below this are taken as zero when drawing. Uniforms are multiples of 2^-24 and may be exactly zero, so
such an event would happen far too often, and a state that is drawn too often has a far too large weight: a chain would
never leave it."""

CERTAIN = 40.0
"""The logit of what is known. Its other states, of probability 4e-18, are never drawn, and no noise of a relaxation
outweighs it."""

NORMAL_CONSTANT = 0.5 * math.log(2 * math.pi)
"""The log-density of the standard normal at 0, but for its sign."""


class Factorised(ABC):
    """Independent variables of one kind, in batches; the last dimension holds the layer's vector.

    Parameters in half precision, as a network under autocast gives them, are taken in single precision: with their own,
    a rare event would be drawn many times too often, and a sum over many variables would be off by nats.
    """

    layer: Layer

    @property
    @abstractmethod
    def like(self) -> Tensor:
        """One of the parameters: draws have its type and stand on its device."""

    @property
    def batch_shape(self) -> torch.Size:
        """The shape in front of the layer's vector."""
        return self.like.shape[:-1]

    @property
    @abstractmethod
    def mean(self) -> Float[Tensor, "*batch width"]:
        """The expected vector: probabilities for discrete variables."""

    @abstractmethod
    def from_uniforms(self, uniforms: Float[Tensor, "*samples variables"]) -> Float[Tensor, "*samples width"]:
        """The draw that these uniforms on [0, 1) determine; it carries no gradient."""

    @abstractmethod
    def log_prob(self, h: Float[Tensor, "*samples width"]) -> Float[Tensor, "*samples"]:
        """The log-probability of vectors, summed over the variables."""

    @abstractmethod
    def take(self, rows: Int64[Tensor, " taken"]) -> Self:
        """The distributions at these positions of the (single) batch dimension."""

    @abstractmethod
    def clamped(self, known: Float[Tensor, "*batch width"]) -> Self:
        """The same with certainty about the variables that are known; NaN is one that is not.

        No gradient passes through a variable that is known, and log q has nothing of it.
        """

    def leaving_out(self, missing: Bool[Tensor, "*batch width"]) -> Self:
        """The same without the variables that are missing: ``log_prob`` has nothing of them if they are given as 0."""
        raise UsageError(f"{type(self).__name__} does not say how to leave out what is missing: write its leaving_out")

    def sample(self, shape: tuple[int, ...] = ()) -> Float[Tensor, "*samples width"]:
        """Draws of shape (*shape, *batch_shape, width), from torch's global generator."""
        like = self.like
        size = (*shape, *self.batch_shape, self.layer.variables)
        return self.from_uniforms(torch.rand(size, dtype=like.dtype, device=like.device))


class Bernoulli(Factorised):
    """Binary variables given by their logits.

    Args:
        logits: The logits.
        saturated: Whether many logits are large, so that sums of them would lose digits: ``log_prob`` is then summed
            with more care, in more time.

    Example:
        >>> bits = Bernoulli(torch.tensor([0.0, 2.0]))
        >>> bits.from_uniforms(torch.tensor([[0.4, 0.9], [0.6, 0.1]]))
        tensor([[1., 0.],
                [0., 1.]])
    """

    def __init__(self, logits: Float[Tensor, "*batch variables"], *, saturated: bool = False) -> None:
        self.logits = _at_least_single(logits)
        self.layer = Layer("bernoulli", logits.shape[-1])
        self.saturated = saturated

    @property
    def like(self) -> Tensor:
        """The logits."""
        return self.logits

    @property
    def mean(self) -> Tensor:
        """The probabilities of a one."""
        return self.logits.sigmoid()

    def from_uniforms(self, uniforms: Tensor) -> Tensor:
        """One where the uniform is below the probability."""
        probabilities = F.threshold(self.logits.detach().sigmoid(), RAREST, 0.0)
        # Comparing into floating-point numbers, which take the shape they need, is a tenth of the time of converting
        # truth values to them.
        return torch.lt(uniforms, probabilities, out=probabilities.new_empty(0))

    def log_prob(self, h: Tensor) -> Tensor:
        """Sum of h l - softplus(l): one transcendental function where two logarithms would be the definition."""
        refuse_wrong_vectors(self.layer, h)
        if self.saturated:
            # Nothing large is left to be summed. Above its threshold softplus(l) is l, which at 50 changes no digit.
            return (h * self.logits - F.softplus(self.logits, threshold=50)).sum(-1)
        return _inner(h, self.logits) - softplus_sum(self.logits)

    def take(self, rows: Tensor) -> Self:
        """The distributions of these rows."""
        return type(self)(self.logits.index_select(0, rows), saturated=self.saturated)

    def clamped(self, known: Tensor) -> Self:
        """Logits that leave no doubt where the bit is known."""
        known = known.to(self.logits.dtype)
        return type(self)(torch.where(known.isnan(), self.logits, CERTAIN * (2 * known - 1)), saturated=True)

    def leaving_out(self, missing: Tensor) -> Self:
        """Bits that are certainly 0 where they are missing."""
        return type(self)(self.logits.masked_fill(missing, -CERTAIN), saturated=self.saturated)


class Categorical(Factorised):
    """Categorical variables given by their logits, one-hot, the variables side by side.

    Example:
        >>> dice = Categorical(torch.zeros(6), classes=3)
        >>> dice.from_uniforms(torch.tensor([0.2, 0.9]))
        tensor([1., 0., 0., 0., 0., 1.])
    """

    def __init__(self, logits: Float[Tensor, "*batch width"], classes: int) -> None:
        if logits.shape[-1] % classes:
            raise UsageError(f"{logits.shape[-1]} logits are not those of whole variables of {classes} classes")
        self.logits = _at_least_single(logits)
        self.layer = Layer("categorical", logits.shape[-1] // classes, classes)

    @property
    def like(self) -> Tensor:
        """The logits."""
        return self.logits

    def _by_variable(self, vector: Tensor) -> Tensor:
        return vector.unflatten(-1, (self.layer.variables, self.layer.classes))

    @property
    def mean(self) -> Tensor:
        """The class probabilities."""
        return self._by_variable(self.logits).softmax(-1).flatten(-2)

    def from_uniforms(self, uniforms: Tensor) -> Tensor:
        """The class into whose part of the cumulative distribution the uniform falls."""
        probabilities = self._by_variable(self.logits.detach()).softmax(-1)
        cumulative = probabilities.where(probabilities > RAREST, 0).cumsum(-1)
        # Rounding may leave the last sum below one. Measured in its units, no class gets what is not its own.
        scaled = uniforms.unsqueeze(-1) * cumulative[..., -1:]
        # 1 for each class that was passed or reached, after a 1 and before a 0: one-hot where it falls.
        edges = cumulative.new_empty(*scaled.shape[:-1], self.layer.classes + 1)
        edges[..., 0], edges[..., -1] = 1, 0
        torch.ge(scaled, cumulative[..., :-1], out=edges[..., 1:-1])
        return (edges[..., :-1] - edges[..., 1:]).flatten(-2)

    def log_prob(self, h: Tensor) -> Tensor:
        """The sum of the normalised logits of the chosen classes."""
        refuse_wrong_vectors(self.layer, h)
        return (h * self._by_variable(self.logits).log_softmax(-1).flatten(-2)).sum(-1)

    def take(self, rows: Tensor) -> Self:
        """The distributions of these rows."""
        return type(self)(self.logits.index_select(0, rows), self.layer.classes)

    def clamped(self, known: Tensor) -> Self:
        """Logits that leave no doubt where the class is known."""
        known = known.to(self.logits.dtype)
        return type(self)(torch.where(known.isnan(), self.logits, CERTAIN * known), self.layer.classes)

    def leaving_out(self, missing: Tensor) -> Self:
        """Itself: a vector of zeros picks no class."""
        return self


class Gaussian(Factorised):
    """Normal variables given by means and logarithms of standard deviations."""

    def __init__(self, mean: Float[Tensor, "*batch variables"], log_scale: Float[Tensor, "*batch variables"]) -> None:
        self._mean = _at_least_single(mean)
        self.log_scale = _at_least_single(log_scale)
        self.layer = Layer("gaussian", mean.shape[-1])

    @property
    def like(self) -> Tensor:
        """The means."""
        return self._mean

    @property
    def mean(self) -> Tensor:
        """The means."""
        return self._mean

    def from_uniforms(self, uniforms: Tensor) -> Tensor:
        """The quantile at the uniform."""
        # A uniform of exactly zero would be minus infinity.
        quantile = torch.special.ndtri(uniforms.clamp_min(RAREST))
        return self._mean.detach() + self.log_scale.detach().exp() * quantile

    def log_prob(self, h: Tensor) -> Tensor:
        """The log-density."""
        refuse_wrong_vectors(self.layer, h)
        standard = (h - self._mean) * (-self.log_scale).exp()
        return (-0.5 * standard.square() - self.log_scale - NORMAL_CONSTANT).sum(-1)

    def take(self, rows: Tensor) -> Self:
        """The distributions of these rows."""
        return type(self)(self._mean.index_select(0, rows), self.log_scale.index_select(0, rows))

    def clamped(self, known: Tensor) -> Self:
        """Itself: a point has no density, so that nothing may be known of these variables."""
        self.layer.refuse_wrong_known(known)
        return self

    def leaving_out(self, missing: Tensor) -> Self:
        """A density of 1 at 0 where a variable is missing."""
        return type(self)(self._mean.masked_fill(missing, 0), self.log_scale.masked_fill(missing, -NORMAL_CONSTANT))


def _at_least_single(parameters: Tensor) -> Tensor:
    return parameters.float() if parameters.dtype in HALVES else parameters


def _inner(left: Float[Tensor, "*left width"], right: Float[Tensor, "*right width"]) -> Float[Tensor, "*samples"]:
    """The sum of products over the last dimension, where either may be one vector for all of the other."""
    if left.numel() == left.shape[-1] and left.ndim <= right.ndim:
        left, right = right, left
    one_vector = right.numel() == right.shape[-1] and right.ndim <= left.ndim
    # Such a product promotes no type, and autocast would take it in half precision.
    if one_vector and left.dtype == right.dtype and not torch.is_autocast_enabled(left.device.type):
        # A product of a matrix with a vector: one pass over memory and no table of products.
        return left @ right.flatten()
    return (left * right).sum(-1)


def factorised(layer: Layer, parameters: Float[Tensor, "*batch parameters"]) -> Factorised:
    """The distribution of a layer whose parameters a network gave.

    All-zero parameters are the fair coin, the uniform class and the standard normal: the fixed priors.
    """
    match layer.kind:
        case "bernoulli":
            return Bernoulli(parameters)
        case "categorical":
            return Categorical(parameters, layer.classes)
        case "gaussian":
            mean, log_scale = parameters.chunk(2, dim=-1)
            return Gaussian(mean, log_scale)
