"""Conditional models p(x, h | c) = p(x | h, c) p(h | c), for structured prediction."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from jsa.batch import Batch
from jsa.distributions import Factorized, factorized
from jsa.errors import UsageError
from jsa.latent import LatentSpace, Layer
from jsa.model import LatentVariableModel
from jsa.models.centering import Center, mean_of_context, mean_of_x
from jsa.models.networks import Conditional, Perceptron
from jsa.models.observations import Observations
from jsa.models.presets import Style
from jsa.posteriors import LayeredPosterior


class StructuredPrediction(LatentVariableModel):
    """A model of observations given a context, with one layer of latents whose prior is learned from the context.

    Args:
        observed: The variables of an observation.
        context: The width of the context.
        latent: One stochastic layer.
        hidden: Widths of the deterministic layers of each of the three networks.
        style: Activation and initialization of the deterministic layers.
        missing: Whether values of x may be missing (NaN); values of the context may not.
        indicators: Whether the inference network also sees which values are missing. If not, it sees zeros.
        values: For each variable of ``observed``, the number of values that it can take, the first ones; None for all.
        center: The means of the training rows, from ``jsa.column_means``: the networks see x and context minus them and
            states with mean 0 and variance 1 under the fixed prior (bits as -1 and 1), and p(x | h, c) begins with
            about these means. The model can express the same and learns faster. None centers nothing.

    Example:
        >>> model = StructuredPrediction(Layer("bernoulli", 6), 4, LatentSpace.of(Layer("bernoulli", 3)), hidden=(8,))
        >>> batch = Batch(torch.zeros(5, 6), torch.arange(5), context=torch.ones(5, 4))
        >>> h = model.posterior(batch).sample((2,))
        >>> model.log_joint(batch, h).shape
        torch.Size([2, 5])
    """

    relaxable = True
    context_mean: Tensor | None

    def __init__(
        self,
        observed: Layer,
        context: int,
        latent: LatentSpace,
        hidden: Sequence[int] = (200, 200),
        *,
        style: Style | None = None,
        missing: bool = False,
        indicators: bool = True,
        values: Sequence[int] | None = None,
        center: Center | None = None,
    ) -> None:
        super().__init__()
        if len(latent.layers) != 1:
            raise UsageError(f"structured prediction needs exactly one stochastic layer, not {len(latent.layers)}")
        network = partial(Perceptron, style=style)
        self.observed = observed
        self.latent = latent
        mean = None if center is None else mean_of_x(center, observed)
        self.observations = Observations(observed, missing, indicators, mean)
        self.register_buffer("context_mean", None if center is None else mean_of_context(center, context))
        layer = latent.layers[0]
        backward = tuple(reversed(hidden))
        seen = self.observations.width
        self.inference = Conditional(layer, network(seen, hidden, layer.parameters, context=context))
        self.observations.start_neutral(self.inference.network)
        centered = None if center is None else layer
        decoder = network(layer.width, backward, observed.parameters, context=context, centered=centered)
        self.generative = Conditional(observed, decoder, values)
        if mean is not None:
            self.generative.start_at(mean)
        self.prior = Conditional(layer, network(context, hidden, layer.parameters))

    def posterior(self, batch: Batch) -> LayeredPosterior:
        """Return q(h | x, c)."""
        of_context = self.inference.network.of_context(self._context(batch.context))
        first = self.inference(self.observations.seen(batch), of_context)
        return LayeredPosterior(self.latent, first, known=batch.known)

    def log_joint(self, batch: Batch, h: Float[Tensor, "*samples batch width"]) -> Float[Tensor, "*samples batch"]:
        """Return log p(x | h, c) + log p(h | c)."""
        # The part of the context is the same for all states of a row.
        of_context = batch.for_each_row(lambda rows: self.generative.network.of_context(self._context(rows.context)))
        observation: Factorized = self.generative(h, of_context)
        return self.observations.log_prob(observation, batch) + self._prior(batch).log_prob(h)

    def latent_conditionals(self, batch: Batch, h: Float[Tensor, "*samples batch width"]) -> list[Factorized]:
        """Return p(h | c), for relaxed methods."""
        return [self._prior(batch)]

    @torch.no_grad()
    def sample_latent(self, shape: tuple[int, ...], context: Tensor | None = None) -> Float[Tensor, "*samples width"]:
        """Draw states from p(h | c), of shape (*shape, batch, width)."""
        prior: Factorized = self.prior(self._context(context))
        return prior.sample(shape)

    def observation(self, h: Float[Tensor, "*samples width"], context: Tensor | None = None) -> Factorized:
        """Return p(x | h, c)."""
        distribution: Factorized = self.generative(h, self.generative.network.of_context(self._context(context)))
        return distribution

    def _prior(self, batch: Batch) -> Factorized:
        parameters = batch.for_each_row(lambda rows: self.prior.network(self._context(rows.context)))
        return factorized(self.prior.layer, parameters)

    def _context(self, context: Tensor | None) -> Tensor:
        """Return what the networks see of a context."""
        if context is None:
            raise UsageError(
                "a structured-prediction model needs a context in every batch: pass Batch(x, rows, context=...)"
            )
        return context if self.context_mean is None else context - self.context_mean
