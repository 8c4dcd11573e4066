"""Generative models p(x | h_1) p(h_1 | h_2) ... p(h_L) with an inference model in the opposite direction."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from jsa.batch import Batch
from jsa.distributions import Factorized, factorized
from jsa.errors import UsageError
from jsa.latent import LatentSpace, Layer
from jsa.model import LatentVariableModel
from jsa.models.centering import Center, mean_of_x
from jsa.models.networks import Conditional, Perceptron
from jsa.models.observations import Observations
from jsa.models.presets import Style
from jsa.posteriors import LayeredPosterior


class BeliefNetwork(LatentVariableModel):
    """Stochastic layers of any kind, each factorized given the next, with deterministic layers between them.

    With Bernoulli latents and no hidden layers this is the paper's "Linear" (one layer) or "Two layers", with hidden
    layers "Nonlinear", and with a categorical layer the categorical autoencoder.

    Args:
        observed: The variables of an observation.
        latent: The stochastic layers, the one next to the data first.
        hidden: Widths of the deterministic layers of each inference conditional; the generative ones have them in
            reverse.
        prior: ``fixed`` for the fair coin, uniform class or standard normal; ``learned`` for free parameters.
        style: Activation and initialization of the deterministic layers.
        missing: Whether values of x may be missing (NaN).
        indicators: Whether the inference network also sees which values are missing. If not, it sees zeros.
        values: For each variable of ``observed``, the number of values that it can take, the first ones; None for all.
        center: The means of the training rows, from ``jsa.column_means``: the inference network sees x minus them, all
            networks see states with mean 0 and variance 1 under the fixed prior (bits as -1 and 1), and p(x | h_1)
            begins with about these means. The model can express the same and learns faster. None centers nothing.

    Example:
        >>> model = BeliefNetwork(Layer("bernoulli", 6), LatentSpace.of(Layer("bernoulli", 4), Layer("bernoulli", 3)))
        >>> batch = Batch(torch.zeros(5, 6), torch.arange(5))
        >>> h = model.posterior(batch).sample((2,))
        >>> h.shape, model.log_joint(batch, h).shape
        (torch.Size([2, 5, 7]), torch.Size([2, 5]))
    """

    relaxable = True
    prior_parameters: Tensor

    def __init__(
        self,
        observed: Layer,
        latent: LatentSpace,
        hidden: Sequence[int] = (),
        *,
        prior: Literal["fixed", "learned"] = "fixed",
        style: Style | None = None,
        missing: bool = False,
        indicators: bool = True,
        values: Sequence[int] | None = None,
        center: Center | None = None,
    ) -> None:
        super().__init__()
        if prior not in ("fixed", "learned"):
            raise UsageError(f"the prior must be 'fixed' or 'learned', not {prior!r}")
        self.observed = observed
        self.latent = latent
        mean = None if center is None else mean_of_x(center, observed)
        self.observations = Observations(observed, missing, indicators, mean)
        network = partial(Perceptron, style=style)
        upward = [observed, *latent.layers]
        seen = [self.observations.width, *(layer.width for layer in latent.layers[:-1])]
        states = [None, *(None if center is None else layer for layer in latent.layers)]
        upwards = [
            network(width, hidden, above.parameters, centered=below)
            for width, below, above in zip(seen, states, latent.layers, strict=False)
        ]
        self.observations.start_neutral(upwards[0])
        self.inference = nn.ModuleList(map(Conditional, latent.layers, upwards))
        self.generative = nn.ModuleList(
            Conditional(
                below,
                network(
                    above.width,
                    tuple(reversed(hidden)),
                    below.parameters,
                    one_hot=above.classes if above.kind == "categorical" else 0,
                    centered=None if center is None else above,
                ),
                values if place == 0 else None,
            )
            for place, (below, above) in enumerate(pairwise(upward))
        )
        if mean is not None:
            decoder = self.generative[0]
            assert isinstance(decoder, Conditional)
            decoder.start_at(mean)
        parameters = torch.zeros(latent.layers[-1].parameters)
        if prior == "learned":
            self.prior_parameters = nn.Parameter(parameters)
        else:
            self.register_buffer("prior_parameters", parameters)

    @property
    def prior(self) -> Factorized:
        """The distribution of the last layer."""
        return factorized(self.latent.layers[-1], self.prior_parameters)

    def posterior(self, batch: Batch) -> LayeredPosterior:
        """Return q(h_1 | x) q(h_2 | h_1) ..., with the first layer's parameters computed once."""
        first, *deeper = self.inference
        conditionals = [
            partial(_given_layer, conditional, where)
            for conditional, where in zip(deeper, self.latent.slices, strict=False)
        ]
        seen = self.observations.seen(batch)
        return LayeredPosterior(self.latent, first(seen), conditionals, independent_of_x=True, known=batch.known)

    def log_joint(self, batch: Batch, h: Float[Tensor, "*samples batch width"]) -> Float[Tensor, "*samples batch"]:
        """Return log p(x | h_1) + log p(h_1 | h_2) + ... + log p(h_L)."""
        first, *others = self.log_joint_terms(batch, h)
        return sum(others, start=first)

    def log_joint_terms(
        self, batch: Batch, h: Float[Tensor, "*samples batch width"]
    ) -> list[Float[Tensor, "*samples batch"]]:
        """Return the terms of ``log_joint``, in the order in which sampling the layers fixes them."""
        layers = [h[..., where] for where in self.latent.slices]
        first, *others = self.generative
        terms = [self.observations.log_prob(first(layers[0]), batch)]
        pairs = zip(others, layers[:-1], layers[1:], strict=True)
        terms += [conditional(above).log_prob(below) for conditional, below, above in pairs]
        return [*terms, self.prior.log_prob(layers[-1])]

    def latent_conditionals(self, batch: Batch, h: Float[Tensor, "*samples batch width"]) -> list[Factorized]:
        """Return p(h_1 | h_2), ..., p(h_L): the distribution of each layer given the one above, for relaxed methods."""
        layers = [h[..., where] for where in self.latent.slices]
        pairs = zip(list(self.generative)[1:], layers[1:], strict=True)
        return [*(conditional(above) for conditional, above in pairs), self.prior]

    @torch.no_grad()
    def sample_latent(self, shape: tuple[int, ...], context: Tensor | None = None) -> Float[Tensor, "*samples width"]:
        """Draw states from the top layer down."""
        if context is not None:
            raise TypeError("a belief network has no context: leave it out, or use a StructuredPrediction model")
        layers = [self.prior.sample(shape)]
        for conditional in reversed(list(self.generative)[1:]):
            layers.insert(0, conditional(layers[0]).sample())
        return torch.cat(layers, dim=-1)

    def observation(self, h: Float[Tensor, "*samples width"], context: Tensor | None = None) -> Factorized:
        """Return p(x | h_1)."""
        distribution: Factorized = self.generative[0](h[..., self.latent.slices[0]])
        return distribution


def _given_layer(conditional: nn.Module, where: slice, ancestors: Tensor) -> Factorized:
    distribution: Factorized = conditional(ancestors[..., where])
    return distribution
