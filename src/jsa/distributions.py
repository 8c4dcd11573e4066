"""Factorized distributions over the variables of one layer.

They resemble torch.distributions but leave out what would cost time in an inner loop. All randomness enters
through ``from_uniforms``, one uniform per variable, so draws can be repeated, tested exactly, and tied to a row.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from jsa.batch import HALVES
from jsa.errors import UsageError
from jsa.latent import Layer

RAREST = 2.0**-25
"""Probabilities below this count as zero when drawing. Uniforms are multiples of 2^-24 and may be exactly zero, so such
an event would happen far too often. Its state would then have far too large a weight, and a chain would never leave
it."""

CERTAIN = 40.0
"""The logit of a known value. Other states, of probability 4e-18, are never drawn, and no relaxation noise outweighs
it."""

NORMAL_CONSTANT = 0.5 * math.log(2 * math.pi)
"""Minus the log-density of the standard normal at 0."""


class Factorized(ABC):
    """Independent variables of one kind, in batches; the last dimension is the layer's vector.

    Parameters in half precision, such as those from autocast, are converted to single precision: otherwise rare events
    would be drawn many times too often, and a sum over many variables would be off by nats.
    """

    layer: Layer

    @property
    @abstractmethod
    def like(self) -> Tensor:
        """One of the parameters: draws have its type and device."""

    @property
    def batch_shape(self) -> torch.Size:
        """The shape before the layer's vector."""
        return self.like.shape[:-1]

    @property
    @abstractmethod
    def mean(self) -> Float[Tensor, "*batch width"]:
        """The expected vector: probabilities for discrete variables."""

    @abstractmethod
    def from_uniforms(self, uniforms: Float[Tensor, "*samples variables"]) -> Float[Tensor, "*samples width"]:
        """Return the draw that these uniforms on [0, 1) determine, without gradient."""

    @abstractmethod
    def log_prob(self, h: Float[Tensor, "*samples width"]) -> Float[Tensor, "*samples"]:
        """Return the log-probability of vectors, summed over the variables."""

    @abstractmethod
    def take(self, rows: Int64[Tensor, " taken"]) -> Self:
        """Return the distributions at these positions of the single batch dimension."""

    @abstractmethod
    def clamped(self, known: Float[Tensor, "*batch width"]) -> Self:
        """Return the distribution with certainty about the known variables; NaN marks an unknown one.

        A known variable passes no gradient and adds nothing to log q.
        """

    def leaving_out(self, missing: Bool[Tensor, "*batch width"]) -> Self:
        """Return the distribution without the missing variables: given as 0, they add nothing to ``log_prob``."""
        raise UsageError(f"{type(self).__name__} does not support missing values: define its method leaving_out")

    def sample(self, shape: tuple[int, ...] = ()) -> Float[Tensor, "*samples width"]:
        """Draw vectors of shape (*shape, *batch_shape, width) from torch's global generator."""
        like = self.like
        size = (*shape, *self.batch_shape, self.layer.variables)
        return self.from_uniforms(torch.rand(size, dtype=like.dtype, device=like.device))


class Bernoulli(Factorized):
    """Binary variables with these logits.

    Args:
        logits: The logits.
        saturated: Whether many logits are large, so that their sums would lose digits: ``log_prob`` is then summed more
            accurately, in more time.

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
        return self.logits.sigmoid()

    def from_uniforms(self, uniforms: Tensor) -> Tensor:
        probabilities = F.threshold(self.logits.detach().sigmoid(), RAREST, 0.0)
        # Writing the comparison into a floating-point tensor takes a tenth of the time of converting truth values.
        return torch.lt(uniforms, probabilities, out=probabilities.new_empty(0))

    def log_prob(self, h: Tensor) -> Tensor:
        """Return the sum of h l - softplus(l): one transcendental function instead of two logarithms."""
        refuse_wrong_vectors(self.layer, h)
        if self.saturated:
            # No large terms are left in the sum. Above its threshold softplus(l) is l, which at 50 changes no digit.
            return (h * self.logits - F.softplus(self.logits, threshold=50)).sum(-1)
        return _inner(h, self.logits) - softplus_sum(self.logits)

    def take(self, rows: Tensor) -> Self:
        return type(self)(self.logits.index_select(0, rows), saturated=self.saturated)

    def clamped(self, known: Tensor) -> Self:
        known = known.to(self.logits.dtype)
        return type(self)(torch.where(known.isnan(), self.logits, CERTAIN * (2 * known - 1)), saturated=True)

    def leaving_out(self, missing: Tensor) -> Self:
        return type(self)(self.logits.masked_fill(missing, -CERTAIN), saturated=self.saturated)


class Categorical(Factorized):
    """Categorical variables with these logits, one-hot, side by side.

    Example:
        >>> dice = Categorical(torch.zeros(6), classes=3)
        >>> dice.from_uniforms(torch.tensor([0.2, 0.9]))
        tensor([1., 0., 0., 0., 0., 1.])
    """

    def __init__(self, logits: Float[Tensor, "*batch width"], classes: int) -> None:
        if logits.shape[-1] % classes:
            raise UsageError(
                f"{logits.shape[-1]} logits are not a multiple of {classes} classes: give {classes} per variable"
            )
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
        return self._by_variable(self.logits).softmax(-1).flatten(-2)

    def from_uniforms(self, uniforms: Tensor) -> Tensor:
        probabilities = self._by_variable(self.logits.detach()).softmax(-1)
        cumulative = probabilities.where(probabilities > RAREST, 0).cumsum(-1)
        # Rounding may leave the last sum below one, so uniforms are scaled by it: each class gets exactly its share.
        scaled = uniforms.unsqueeze(-1) * cumulative[..., -1:]
        # 1 up to the class into which the uniform falls, then 0: the difference is one-hot.
        edges = cumulative.new_empty(*scaled.shape[:-1], self.layer.classes + 1)
        edges[..., 0], edges[..., -1] = 1, 0
        torch.ge(scaled, cumulative[..., :-1], out=edges[..., 1:-1])
        return (edges[..., :-1] - edges[..., 1:]).flatten(-2)

    def log_prob(self, h: Tensor) -> Tensor:
        refuse_wrong_vectors(self.layer, h)
        return (h * self._by_variable(self.logits).log_softmax(-1).flatten(-2)).sum(-1)

    def take(self, rows: Tensor) -> Self:
        return type(self)(self.logits.index_select(0, rows), self.layer.classes)

    def clamped(self, known: Tensor) -> Self:
        known = known.to(self.logits.dtype)
        return type(self)(torch.where(known.isnan(), self.logits, CERTAIN * known), self.layer.classes)

    def leaving_out(self, missing: Tensor) -> Self:
        """Return this distribution: a vector of zeros selects no class."""
        return self


class Gaussian(Factorized):
    """Normal variables with these means and logarithms of standard deviations."""

    def __init__(self, mean: Float[Tensor, "*batch variables"], log_scale: Float[Tensor, "*batch variables"]) -> None:
        self._mean = _at_least_single(mean)
        self.log_scale = _at_least_single(log_scale)
        self.layer = Layer("gaussian", mean.shape[-1])

    @property
    def like(self) -> Tensor:
        return self._mean

    @property
    def mean(self) -> Tensor:
        return self._mean

    def from_uniforms(self, uniforms: Tensor) -> Tensor:

        # A uniform of exactly zero would give minus infinity.
        quantile = torch.special.ndtri(uniforms.clamp_min(RAREST))
        return self._mean.detach() + self.log_scale.detach().exp() * quantile

    def log_prob(self, h: Tensor) -> Tensor:
        refuse_wrong_vectors(self.layer, h)
        standard = (h - self._mean) * (-self.log_scale).exp()
        return (-0.5 * standard.square() - self.log_scale - NORMAL_CONSTANT).sum(-1)

    def take(self, rows: Tensor) -> Self:
        return type(self)(self._mean.index_select(0, rows), self.log_scale.index_select(0, rows))

    def clamped(self, known: Tensor) -> Self:
        """Return this distribution: Gaussian variables cannot be known."""
        self.layer.refuse_wrong_known(known)
        return self

    def leaving_out(self, missing: Tensor) -> Self:
        """Return a distribution with density 1 at 0 for missing variables."""
        return type(self)(self._mean.masked_fill(missing, 0), self.log_scale.masked_fill(missing, -NORMAL_CONSTANT))


def _at_least_single(parameters: Tensor) -> Tensor:
    return parameters.float() if parameters.dtype in HALVES else parameters


def _inner(left: Float[Tensor, "*left width"], right: Float[Tensor, "*right width"]) -> Float[Tensor, "*samples"]:
    """Return the sum of products over the last dimension; either argument may be one vector for all of the other."""
    if left.numel() == left.shape[-1] and left.ndim <= right.ndim:
        left, right = right, left
    one_vector = right.numel() == right.shape[-1] and right.ndim <= left.ndim
    # This product does not promote types, and autocast would compute it in half precision.
    if one_vector and left.dtype == right.dtype and not torch.is_autocast_enabled(left.device.type):
        # A matrix-vector product: one pass over memory, without a table of products.
        return left @ right.flatten()
    return (left * right).sum(-1)


def factorized(layer: Layer, parameters: Float[Tensor, "*batch parameters"]) -> Factorized:
    """Return the distribution of a layer with the parameters that a network returned.

    Parameters of zero give the fixed priors: the fair coin, the uniform class and the standard normal.
    """
    match layer.kind:
        case "bernoulli":
            return Bernoulli(parameters)
        case "categorical":
            return Categorical(parameters, layer.classes)
        case "gaussian":
            mean, log_scale = parameters.chunk(2, dim=-1)
            return Gaussian(mean, log_scale)


_VALIDATING: ContextVar[bool] = ContextVar("careful", default=False)


@contextmanager
def validating_values() -> Iterator[None]:
    """Check every value that distributions score inside this block, which would cost too much at every step.

    Compiled functions run uncompiled there: compiled ones skip the check, which cannot be traced.
    """
    token = _VALIDATING.set(True)
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        _VALIDATING.reset(token)


def refuse_wrong_vectors(layer: Layer, h: Float[Tensor, "*samples width"]) -> None:
    """Refuse vectors of another width, which would broadcast; inside ``validating_values``, wrong values too.

    >>> import torch
    >>> refuse_wrong_vectors(Layer("categorical", 1, classes=10), torch.tensor([[3.0]]))
    Traceback (most recent call last):
    jsa.errors.UsageError: 1 categorical variable of 10 classes must be a one-hot vector of width 10, not of width 1
    """
    if h.shape[-1] != layer.width:
        vector = "one-hot vector" if layer.kind == "categorical" else "vector"
        raise UsageError(f"{layer} must be a {vector} of width {layer.width}, not of width {h.shape[-1]}")
    # A ContextVar cannot be traced; while values are validated, nothing is compiled.
    if not torch.compiler.is_compiling() and _VALIDATING.get() and layer.kind != "gaussian":
        _refuse_wrong_values(layer, h.detach())


def _refuse_wrong_values(layer: Layer, h: Float[Tensor, "*samples width"]) -> None:
    """Refuse values that are neither states of discrete variables nor between them."""
    wrong = h[~((h >= 0) & (h <= 1))]
    if len(wrong):
        raise UsageError(
            f"{layer} cannot have the value {float(wrong[0]):g}: "
            + ("a bit is 0 or 1, or between them" if layer.kind == "bernoulli" else "a class is one-hot")
            + ", so scale or encode the observations"
        )
    if layer.kind == "categorical":
        totals = h.unflatten(-1, (layer.variables, layer.classes)).sum(-1)
        # A vector of zeros is a variable that was left out.
        wrong = totals[~(((totals - 1).abs() < 1e-3) | (totals == 0))]
        if len(wrong):
            raise UsageError(f"{layer} cannot have a vector that sums to {float(wrong[0]):g}: a class is one-hot")


WORTHWHILE = 100_000
"""From this many logits on, products are faster; below, their extra calls cost more than they save."""

HALVINGS = 4
"""2^4 = 16 factors, each between 1/2 and 1, are multiplied before a logarithm is taken: a logarithm costs as much as
ten products, and a product of 16 such factors cannot underflow."""


def softplus_sum(logits: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch"]:
    """Sum softplus over the last dimension, for many logits in about half the time of summing ``F.softplus``.

    It uses softplus(l) = max(l, 0) - log sigmoid(|l|), with logarithms of products. The result agrees with the sum to
    the precision of the type; derivatives of any order are those of the sum.

    Example:
        >>> softplus_sum(torch.tensor([0.0, 0.0, 1000.0, -1000.0]))
        tensor(1001.3863)
    """
    if logits.numel() < WORTHWHILE:
        return F.softplus(logits).sum(-1)
    if not (torch.is_grad_enabled() and logits.requires_grad):
        return _SoftplusSum.forward(logits)
    value: Tensor = _SoftplusSum.apply(logits)  # type: ignore[no-untyped-call]
    return value


class _SoftplusSum(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(logits: Tensor) -> Tensor:
        factors = logits.abs().sigmoid_()
        for _ in range(HALVINGS):
            if factors.shape[-1] % 2:
                break
            left, right = factors.chunk(2, dim=-1)
            factors = left * right
        return logits.clamp_min(0).sum(-1) - factors.log_().sum(-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (logits,) = ctx.saved_tensors
        return gradient.unsqueeze(-1) * logits.sigmoid()
