"""What a model makes of x, of which values may be missing: NaN.

Under the model the values of a row are independent given h, so that summing over those that are missing leaves out
their factors: log p(x, h) has the terms of the others. This is right where values are missing at random, that is, where
whether one is missing does not depend on what it is, given the values that are there.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jsa.distributions import Factorized
from jsa.latent import Layer
from jsa.models.networks import Perceptron


@dataclass(frozen=True)
class Observations:
    """Observations of one kind.

    Attributes:
        layer: What an observation is made of.
        missing: Whether values may be missing.
        indicators: Whether the inference network then also sees which ones are. To one that does not, they are zeros.

    Example:
        >>> answers = Observations(Layer("bernoulli", 3), missing=True, indicators=True)
        >>> x = torch.tensor([[1.0, torch.nan, 0.0]])
        >>> answers.seen(x)
        tensor([[1., 0., 0., 0., 1., 0.]])
        >>> from jsa import Bernoulli
        >>> answers.log_prob(Bernoulli(torch.tensor([[0.0, 3.0, 0.0]])), x)  # two fair coins
        tensor([-1.3863])
    """

    layer: Layer
    missing: bool
    indicators: bool

    @property
    def width(self) -> int:
        """The width of what the inference network sees."""
        return 2 * self.layer.width if self._are_added else self.layer.width

    def start_neutral(self, network: Perceptron) -> None:
        """Makes a new inference network say of a gap what it says of a zero, until it has learned better.

        So a variable of which no value is missing while it learns does not come with random weights when one is.
        """
        if self._are_added:
            torch.nn.init.zeros_(network.first.weight[:, self.layer.width : self.width])

    def seen(self, x: Float[Tensor, "batch width"]) -> Float[Tensor, "batch seen"]:
        """What the inference network sees: 0 for what is missing, and beside it, which values are.

        A one-hot vector of zeros says by itself that its variable is missing.
        """
        missing = self._gaps(x)
        there = x if missing is None else x.masked_fill(missing, 0)
        if not self._are_added:
            return there
        return torch.cat([there, torch.zeros_like(x) if missing is None else missing.to(x.dtype)], dim=-1)

    def log_prob(self, distribution: Factorized, x: Float[Tensor, "batch width"]) -> Float[Tensor, "*samples batch"]:
        """The log-probability of the values that are there."""
        missing = self._gaps(x)
        if missing is None:
            return distribution.log_prob(x)
        return distribution.leaving_out(missing).log_prob(x.masked_fill(missing, 0))

    def _gaps(self, x: Float[Tensor, "batch width"]) -> Bool[Tensor, "batch width"] | None:
        """Where values are missing; none where nothing is, which a sum tells in a fifteenth of the time."""
        return x.isnan() if self.missing and bool(x.sum().isnan()) else None

    @property
    def _are_added(self) -> bool:
        return self.missing and self.indicators and self.layer.kind != "categorical"
