"""Models in spaces too large to be enumerated, right ones and ones that draw something else than they score."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from helpers.small_models import Wrapped
from jsa import (
    Batch,
    BeliefNetwork,
    Bernoulli,
    Categorical,
    Factorized,
    Gaussian,
    LatentSpace,
    LatentVariableModel,
    Layer,
    LayeredPosterior,
    Posterior,
    StructuredPrediction,
    TorchPosterior,
)

WIDTH = 12
"""The bits of an observation."""


def batch(**more: Any) -> Batch:
    """Four different rows."""
    x = torch.randint(2, (4, WIDTH), generator=torch.Generator().manual_seed(0)).float()
    return Batch(x, torch.arange(4), **more)


class Own(LatentVariableModel):
    """A uniform prior, and any inference model."""

    def __init__(self, latent: LatentSpace, posterior: Callable[[nn.Module, Batch], Any]) -> None:
        super().__init__()
        self.latent, self.of_batch = latent, posterior
        self.encoder = nn.Linear(WIDTH, sum(layer.parameters for layer in latent.layers))
        self.weights = nn.Parameter(2 * torch.randn(latent.width, latent.width) / latent.width**0.5)
        self.decoder = nn.Linear(latent.width, WIDTH)

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return Bernoulli(self.decoder(h)).log_prob(batch.x)

    def posterior(self, batch: Batch) -> Posterior:
        return cast(Posterior, self.of_batch(self, batch))


# One bit after the other


def ancestors(h: Tensor, weights: Tensor) -> Tensor:
    """What the bits before each bit add to its logit."""
    return h @ weights.tril(-1).T


def itself_too(h: Tensor, weights: Tensor) -> Tensor:
    """The same, with a bit's own value among its ancestors."""
    return h @ weights.tril().T


def shifted(h: Tensor, weights: Tensor) -> Tensor:
    """The same of another state, in which all bits have moved by one place."""
    return ancestors(nn.functional.pad(h, (1, -1)), weights)


class Autoregressive:
    """Bits that are drawn one after the other.

    Args:
        model: The model whose weights they have.
        batch: The rows.
        scored: What is added to the logits of a given state.
        temperature: What logits are divided by in drawing, for each bit.
        padded: The place after which bits are drawn until one of them is 0; then come zeros.
    """

    def __init__(
        self,
        model: Any,
        batch: Batch,
        scored: Callable[[Tensor, Tensor], Tensor] = ancestors,
        temperature: Tensor | float = 1.0,
        padded: int = 1_000,
    ) -> None:
        self.bias, self.weights = model.encoder(batch.x), model.weights
        self.scored, self.padded = scored, padded
        self.temperature = torch.as_tensor(temperature).expand(self.bias.shape[-1])

    @torch.no_grad()
    def sample(self, shape: tuple[int, ...]) -> Tensor:
        h = torch.zeros(*shape, *self.bias.shape)
        weights = self.weights.tril(-1)
        for place, temperature in enumerate(self.temperature):
            logits = (self.bias[:, place] + h @ weights[place]) / temperature
            h[..., place] = torch.bernoulli(logits.sigmoid())
            if place > self.padded:
                h[..., place] *= h[..., place - 1]
        return h

    def log_prob(self, h: Tensor) -> Tensor:
        return Bernoulli(self.bias + self.scored(h, self.weights)).log_prob(h)


def autoregressive(bits: int = 40, **faults: Any) -> Own:
    """Bits that depend on all bits before them."""
    return Own(LatentSpace.of(Layer("bernoulli", bits)), partial(Autoregressive, **faults))


def warmer(bits: int, place: int) -> Tensor:
    """Temperature 1, but 5 at one place."""
    return torch.ones(bits).index_fill(0, torch.tensor(place), 5.0)


# Other inference models


class TwoLayers:
    """Layers that are scored given something else than their ancestors."""

    def __init__(self, right: LayeredPosterior, given: Callable[[Tensor], Tensor]) -> None:
        self.right, self.given = right, given

    def sample(self, shape: tuple[int, ...]) -> Tensor:
        return self.right.sample(shape)

    def log_prob(self, h: Tensor) -> Tensor:
        first, second = h.chunk(2, dim=-1)
        return self.right.first.log_prob(first) + self.right.conditional(1, self.given(first)).log_prob(second)


def two_layers(given: Callable[[Tensor], Tensor] = lambda h: h) -> Own:
    """Twenty bits above twenty bits."""

    def posterior(model: Any, batch: Batch) -> TwoLayers:
        first = Bernoulli(model.encoder(batch.x)[:, :20])
        right = LayeredPosterior(model.latent, first, [lambda h: Bernoulli(2 * h @ model.weights[:20, :20])])
        return TwoLayers(right, given)

    return Own(LatentSpace.of(Layer("bernoulli", 20), Layer("bernoulli", 20)), posterior)


class OverTheRows:
    """Categorical variables whose probabilities sum to one over the rows where the classes were meant."""

    def __init__(self, logits: Tensor, dimension: int) -> None:
        self.logits, self.dimension = logits, dimension

    def sample(self, shape: tuple[int, ...]) -> Tensor:
        return Categorical(self.logits, 4).sample(shape)

    def log_prob(self, h: Tensor) -> Tensor:
        by_variable = self.logits.unflatten(-1, (-1, 4)).log_softmax(self.dimension)
        return (h * by_variable.flatten(-2)).sum(-1)


def categorical(dimension: int = -1) -> Own:
    """Twelve variables of four classes."""
    return Own(
        LatentSpace.of(Layer("categorical", 12, classes=4)),
        lambda model, batch: OverTheRows(3 * cast(Any, model).encoder(batch.x), dimension),
    )


class Normal:
    """Gaussian variables of which each depends on the one before."""

    def __init__(self, model: Any, batch: Batch, wider: float = 1.0) -> None:
        self.mean, self.log_scale = model.encoder(batch.x).chunk(2, dim=-1)
        self.wider = wider

    def sample(self, shape: tuple[int, ...]) -> Tensor:
        noise = torch.randn(*shape, *self.mean.shape)
        h = torch.zeros_like(noise)
        for place in range(h.shape[-1]):
            before = h[..., place - 1] if place else 0.0
            scale = self.wider * self.log_scale[:, place].exp()
            h[..., place] = (self.mean[:, place] + 0.9 * before + scale * noise[..., place]).detach()
        return h

    def log_prob(self, h: Tensor) -> Tensor:
        mean = self.mean + 0.9 * nn.functional.pad(h, (1, -1))
        return Gaussian(mean, self.log_scale.expand_as(mean)).log_prob(h)


def gaussian(wider: float = 1.0) -> Own:
    """Eight variables."""
    return Own(LatentSpace.of(Layer("gaussian", 8)), partial(Normal, wider=wider))


def mixed() -> BeliefNetwork:
    """Layers of all three kinds."""
    latent = LatentSpace.of(Layer("categorical", 4, classes=5), Layer("bernoulli", 10), Layer("gaussian", 3))
    return generative(latent)


def saturated() -> Own:
    """Bits of which most are certain."""
    return Own(
        LatentSpace.of(Layer("bernoulli", 40)), lambda model, batch: Bernoulli(300 * cast(Any, model).encoder(batch.x))
    )


def from_torch() -> Own:
    """Bits with a distribution of torch."""

    def posterior(model: Any, batch: Batch) -> TorchPosterior:
        bits = torch.distributions.Bernoulli(logits=3 * model.encoder(batch.x))
        return TorchPosterior(torch.distributions.Independent(bits, 1))

    return Own(LatentSpace.of(Layer("bernoulli", 30)), posterior)


# p(x, h)


def generative(latent: LatentSpace | None = None) -> BeliefNetwork:
    """A belief network with a prior far from uniform."""
    latent = latent or LatentSpace.of(Layer("bernoulli", 30))
    model = BeliefNetwork(Layer("bernoulli", WIDTH), latent, (16,), prior="learned", missing=True)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.7 * torch.randn_like(parameter))
    return model


class Generating(Wrapped):
    """A belief network with a mistake in its density, or in one of its samplers."""

    def __init__(
        self,
        model: BeliefNetwork,
        joint: Callable[[Any, Tensor, Tensor], Tensor] = lambda model, value, h: value,
        observation: Callable[[Bernoulli], Factorized] = lambda right: right,
    ) -> None:
        super().__init__(model)
        self.of_joint, self.of_observation = joint, observation

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return self.of_joint(self.model, super().log_joint(batch, h), h)

    def sample_latent(self, shape: tuple[int, ...], context: Tensor | None = None) -> Tensor:
        return cast(BeliefNetwork, self.model).sample_latent(shape, context)

    def observation(self, h: Tensor, context: Tensor | None = None) -> Factorized:
        return self.of_observation(cast(Bernoulli, cast(BeliefNetwork, self.model).observation(h, context)))


def with_priors(count: int) -> Generating:
    """Bits with this many factors of the prior in log p(x, h)."""

    def joint(model: Any, value: Tensor, h: Tensor) -> Tensor:
        return value + (count - 1) * model.prior.log_prob(h)

    return Generating(generative(), joint)


def observing(change: Callable[[Tensor], Tensor]) -> Generating:
    """Bits whose decoder has other logits where it is sampled."""
    return Generating(generative(), observation=lambda right: Bernoulli(change(right.logits)))


def conditional() -> StructuredPrediction:
    """Bits with a prior that depends on a context."""
    return StructuredPrediction(Layer("bernoulli", WIDTH), 5, LatentSpace.of(Layer("bernoulli", 30)), (16,))
