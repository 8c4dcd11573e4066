"""Inference models: layers sampled one after the other, and the adapter for torch.distributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Self

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from jsa.batch import completed
from jsa.distributions import Factorized
from jsa.errors import UsageError
from jsa.latent import LatentSpace


class LayeredPosterior:
    """q(h | x) = q(h_1 | x) q(h_2 | h_1, x) ...: each layer is factorized given the layers before it.

    The encoder's pass is made before, in ``first``; the deeper conditionals run whenever their ancestors are known.
    All draws come from ``from_uniforms``: a subclass that draws otherwise overrides that.

    Args:
        latent: The layers, in sampling order.
        first: q(h_1 | x) for the rows of the batch.
        deeper: For each further layer, the function from the states before it to its distribution. The states have the
            rows last but one and any number of dimensions before them, such as samples.
        independent_of_x: Whether these functions know nothing of x but what the states say. Then the posterior can be
            narrowed to some rows of the batch, which saves time; otherwise they are always given states of all rows.
        known: The states of the rows as far as they are known, NaN where they are not: ``batch.known``. This is then
            q of the other variables, each given what stands before it.

    Example:
        >>> from jsa import Bernoulli, LatentSpace, Layer
        >>> space = LatentSpace.of(Layer("bernoulli", 3))
        >>> posterior = LayeredPosterior(space, Bernoulli(torch.zeros(5, 3)))
        >>> h = posterior.sample((2,))
        >>> h.shape, posterior.log_prob(h).shape
        (torch.Size([2, 5, 3]), torch.Size([2, 5]))
    """

    def __init__(
        self,
        latent: LatentSpace,
        first: Factorized,
        deeper: Sequence[Callable[[Tensor], Factorized]] = (),
        *,
        independent_of_x: bool = False,
        known: Float[Tensor, "batch width"] | None = None,
    ) -> None:
        if len(deeper) + 1 != len(latent.layers):
            raise UsageError(f"{len(latent.layers)} layers need as many conditionals, not {len(deeper) + 1}")
        if known is not None:
            latent.refuse_wrong_known(known)
        self.latent = latent
        self.first = self._fitting(first, 0)
        self.deeper = tuple(deeper)
        self.independent_of_x = independent_of_x
        self.known = known
        self.free: LayeredPosterior | None = None
        """The same with nothing known, where something is: this posterior clamps its conditionals."""
        if known is not None:
            self.free = copy(self)
            self.free.known = None
            self.first = self._clamped(first, 0)

    def conditional(self, layer: int, ancestors: Float[Tensor, "*samples above"]) -> Factorized:
        """The distribution of a layer given the part of the state vector that stands before it."""
        if layer == 0:
            return self.first
        return self._clamped(self._fitting(self.deeper[layer - 1](ancestors), layer), layer)

    def _fitting(self, distribution: Factorized, layer: int) -> Factorized:
        """The distribution, refused where it is of other variables: their noise and values would broadcast."""
        expected = self.latent.layers[layer]
        if distribution.layer != expected:
            raise UsageError(
                f"layer {layer} of q(h | x) has {distribution.layer}, and the latent space {expected}: give "
                f"{type(distribution).__name__} the logits of these, or say in LatentSpace what the state is"
            )
        return distribution

    def _clamped(self, distribution: Factorized, layer: int) -> Factorized:
        return distribution if self.known is None else distribution.clamped(self.known[..., self.latent.slices[layer]])

    def completed(self, layer: int, value: Float[Tensor, "*samples width"]) -> Float[Tensor, "*samples width"]:
        """The value of a layer with what is known put in its place."""
        return completed(value, None if self.known is None else self.known[..., self.latent.slices[layer]])

    def from_uniforms(
        self, uniforms: Float[Tensor, "*samples variables"]
    ) -> tuple[Float[Tensor, "*samples width"], Float[Tensor, "*samples"]]:
        """The draw that these uniforms determine, layer by layer, and its log-probability."""
        first, *rest = self.latent.noise_slices
        state = self.first.from_uniforms(uniforms[..., first])
        log_prob = self.first.log_prob(state)
        for layer, where in enumerate(rest, start=1):
            distribution = self.conditional(layer, state)
            drawn = distribution.from_uniforms(uniforms[..., where])
            log_prob = log_prob + distribution.log_prob(drawn)
            state = torch.cat([state, drawn], dim=-1)
        return state, log_prob

    def sample_with_log_prob(
        self, shape: tuple[int, ...] = ()
    ) -> tuple[Float[Tensor, "*samples width"], Float[Tensor, "*samples"]]:
        """Draws from torch's global generator with their log-probabilities; only these have a gradient."""
        like = self.first.like
        size = (*shape, *self.first.batch_shape, self.latent.variables)
        return self.from_uniforms(torch.rand(size, dtype=like.dtype, device=like.device))

    @torch.no_grad()
    def sample(self, shape: tuple[int, ...] = ()) -> Float[Tensor, "*samples width"]:
        """Draws of shape (*shape, batch, width), from torch's global generator."""
        state, _ = self.sample_with_log_prob(shape)
        return state

    def log_prob(self, h: Float[Tensor, "*samples width"]) -> Float[Tensor, "*samples"]:
        """The sum of the layers' log-probabilities, each given the layers before it."""
        first, *deeper = self.layer_log_probs(h)
        return sum(deeper, start=first)

    def layer_log_probs(self, h: Float[Tensor, "*samples width"]) -> list[Float[Tensor, "*samples"]]:
        """The log-probability of each layer given the layers before it."""
        return [
            self.conditional(layer, h[..., : where.start]).log_prob(h[..., where])
            for layer, where in enumerate(self.latent.slices)
        ]

    def known_log_prob(self, h: Float[Tensor, "*samples width"]) -> Float[Tensor, "*samples"]:
        """The log-probability of what is known, each variable given the layers before its own."""
        total = torch.zeros(h.shape[:-1], dtype=h.dtype, device=h.device)
        if self.free is None or self.known is None:
            return total
        # The other way round: certainty about all variables but the known ones.
        others = torch.where(self.known.isnan(), h, torch.nan)
        for layer, where in enumerate(self.latent.slices):
            if self.latent.layers[layer].kind != "gaussian":
                free = self.free.conditional(layer, h[..., : where.start])
                total = total + free.clamped(others[..., where]).log_prob(h[..., where])
        return total

    def take(self, rows: Int64[Tensor, " taken"]) -> Self | None:
        """The posterior of these rows of the batch, without another encoder pass; none where deeper layers know x."""
        if self.deeper and not self.independent_of_x:
            return None
        taken = copy(self)
        taken.first = self.first.take(rows)
        taken.free = None if self.free is None else self.free.take(rows)
        taken.known = None if self.known is None else self.known.index_select(0, rows)
        return taken


class TorchPosterior:
    """A torch.distributions object as an inference model.

    Args:
        distribution: Of batch shape (batch,); its event, flattened, is the state. Wrap it in Independent where needed.

    Example:
        >>> from torch.distributions import Independent, OneHotCategorical
        >>> posterior = TorchPosterior(Independent(OneHotCategorical(logits=torch.zeros(5, 4, 3)), 1))
        >>> h = posterior.sample((2,))
        >>> h.shape, posterior.log_prob(h).shape
        (torch.Size([2, 5, 12]), torch.Size([2, 5]))
    """

    def __init__(self, distribution: torch.distributions.Distribution) -> None:
        if len(distribution.batch_shape) != 1 or not distribution.event_shape:
            raise UsageError(
                f"a posterior has the batch shape (rows,), and its event is the state; {type(distribution).__name__} "
                f"has batch shape {tuple(distribution.batch_shape)} and event shape {tuple(distribution.event_shape)}: "
                "wrap it in torch.distributions.Independent(..., n), where n dimensions of the batch are of the state"
            )
        self.distribution = distribution

    def sample(self, shape: tuple[int, ...] = ()) -> Float[Tensor, "*samples width"]:
        """Draws of shape (*shape, batch, width), without gradient."""
        with torch.no_grad():
            return self.distribution.sample(shape).flatten(-len(self.distribution.event_shape))

    def log_prob(self, h: Float[Tensor, "*samples width"]) -> Float[Tensor, "*samples"]:
        """The log-probability of the states."""
        value: Tensor = self.distribution.log_prob(h.unflatten(-1, self.distribution.event_shape))
        return value
