"""Inference models: layers sampled one after the other, and an adapter for torch.distributions."""

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

    The encoder pass is already done in ``first``; the deeper conditionals are evaluated once their ancestors are known.
    All draws come from ``from_uniforms``: override it to draw in another way.

    Args:
        latent: The layers, in sampling order.
        first: q(h_1 | x) for the rows of the batch.
        deeper: For each further layer, the function from the states before it to its distribution. The states have the
            rows in the last dimension but one, and any number of dimensions before it, such as samples.
        independent_of_x: Whether these functions depend on x through the states only. If so, the posterior can be
            restricted to some rows of the batch, which saves time; if not, they always get states of all rows.
        known: The known part of the states, NaN where unknown: ``batch.known``. The posterior is then q of the other
            variables, each given the layers before it.

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
            raise UsageError(f"{len(latent.layers)} layers need one conditional each, not {len(deeper) + 1}")
        if known is not None:
            latent.refuse_wrong_known(known)
        self.latent = latent
        self.first = self._fitting(first, 0)
        self.deeper = tuple(deeper)
        self.independent_of_x = independent_of_x
        self.known = known
        self.free: LayeredPosterior | None = None
        """The posterior without known values, if there are any: this one clamps its conditionals."""
        if known is not None:
            self.free = copy(self)
            self.free.known = None
            self.first = self._clamped(first, 0)

    def conditional(self, layer: int, ancestors: Float[Tensor, "*samples above"]) -> Factorized:
        """Return the distribution of a layer given the part of the state vector before it."""
        if layer == 0:
            return self.first
        return self._clamped(self._fitting(self.deeper[layer - 1](ancestors), layer), layer)

    def _fitting(self, distribution: Factorized, layer: int) -> Factorized:
        """Return the distribution, or refuse one of other variables, whose noise and values would broadcast."""
        expected = self.latent.layers[layer]
        if distribution.layer != expected:
            raise UsageError(
                f"layer {layer} of q(h | x) has {distribution.layer}, but the latent space has {expected}: give "
                f"{type(distribution).__name__} parameters of that shape, or change the LatentSpace"
            )
        return distribution

    def _clamped(self, distribution: Factorized, layer: int) -> Factorized:
        return distribution if self.known is None else distribution.clamped(self.known[..., self.latent.slices[layer]])

    def completed(self, layer: int, value: Float[Tensor, "*samples width"]) -> Float[Tensor, "*samples width"]:
        """Put the known values into a layer."""
        return completed(value, None if self.known is None else self.known[..., self.latent.slices[layer]])

    def from_uniforms(
        self, uniforms: Float[Tensor, "*samples variables"]
    ) -> tuple[Float[Tensor, "*samples width"], Float[Tensor, "*samples"]]:
        """Return the draw that these uniforms determine, layer by layer, and its log-probability."""
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
        """Draw states from torch's global generator, with log-probabilities; only these have a gradient."""
        like = self.first.like
        size = (*shape, *self.first.batch_shape, self.latent.variables)
        return self.from_uniforms(torch.rand(size, dtype=like.dtype, device=like.device))

    @torch.no_grad()
    def sample(self, shape: tuple[int, ...] = ()) -> Float[Tensor, "*samples width"]:
        """Draw states of shape (*shape, batch, width) from torch's global generator."""
        state, _ = self.sample_with_log_prob(shape)
        return state

    def log_prob(self, h: Float[Tensor, "*samples width"]) -> Float[Tensor, "*samples"]:
        """Return the sum of the layers' log-probabilities, each given the layers before it."""
        first, *deeper = self.layer_log_probs(h)
        return sum(deeper, start=first)

    def layer_log_probs(self, h: Float[Tensor, "*samples width"]) -> list[Float[Tensor, "*samples"]]:
        """Return the log-probability of each layer given the layers before it."""
        return [
            self.conditional(layer, h[..., : where.start]).log_prob(h[..., where])
            for layer, where in enumerate(self.latent.slices)
        ]

    def known_log_prob(self, h: Float[Tensor, "*samples width"]) -> Float[Tensor, "*samples"]:
        """Return the log-probability of the known values, each given the layers before its own."""
        total = torch.zeros(h.shape[:-1], dtype=h.dtype, device=h.device)
        if self.free is None or self.known is None:
            return total
        # The reverse of clamping: every variable is certain except the known ones.
        others = torch.where(self.known.isnan(), h, torch.nan)
        for layer, where in enumerate(self.latent.slices):
            if self.latent.layers[layer].kind != "gaussian":
                free = self.free.conditional(layer, h[..., : where.start])
                total = total + free.clamped(others[..., where]).log_prob(h[..., where])
        return total

    def take(self, rows: Int64[Tensor, " taken"]) -> Self | None:
        """Return the posterior of these rows without another encoder pass; None if deeper layers depend on x."""
        if self.deeper and not self.independent_of_x:
            return None
        taken = copy(self)
        taken.first = self.first.take(rows)
        taken.free = None if self.free is None else self.free.take(rows)
        taken.known = None if self.known is None else self.known.index_select(0, rows)
        return taken


class TorchPosterior:
    """An inference model made from a torch.distributions object.

    Args:
        distribution: The distribution, of batch shape (batch,); its flattened event is the state. Wrap it in
            Independent if needed.

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
                "a posterior needs the batch shape (rows,) and the state as its event, but that of "
                f"{type(distribution).__name__} is {tuple(distribution.batch_shape)}, with the event shape "
                f"{tuple(distribution.event_shape)}: "
                "wrap it in torch.distributions.Independent(..., n), where n batch dimensions belong to the state"
            )
        self.distribution = distribution

    @property
    def mean(self) -> Float[Tensor, "batch width"]:
        """The expected states: probabilities for discrete variables."""
        return self.distribution.mean.flatten(1)

    def sample(self, shape: tuple[int, ...] = ()) -> Float[Tensor, "*samples width"]:
        """Draw states of shape (*shape, batch, width), without gradient."""
        with torch.no_grad():
            return self.distribution.sample(shape).flatten(-len(self.distribution.event_shape))

    def log_prob(self, h: Float[Tensor, "*samples width"]) -> Float[Tensor, "*samples"]:
        """Return the log-probability of states."""
        value: Tensor = self.distribution.log_prob(h.unflatten(-1, self.distribution.event_shape))
        return value
