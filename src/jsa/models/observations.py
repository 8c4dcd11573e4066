"""The observations of a model, with missing values (NaN).

The values of a row are independent given h, so summing over the missing ones drops their factors: log p(x, h) has only
the terms of the others. This is correct if values are missing at random: whether a value is missing must not depend on
the value itself, given the observed values.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from jsa.batch import Batch
from jsa.distributions import Factorized
from jsa.latent import Layer
from jsa.models.networks import Perceptron


class Observations(nn.Module):
    """Observations of one kind.

    Args:
        layer: The variables of an observation.
        missing: Whether values may be missing.
        indicators: Whether the inference network also sees which values are missing. If not, it sees zeros.
        mean: What the inference network sees subtracted from the observed values; None for nothing.

    Example:
        >>> answers = Observations(Layer("bernoulli", 3), missing=True, indicators=True)
        >>> batch = Batch(torch.tensor([[1.0, torch.nan, 0.0]]))
        >>> answers.seen(batch)
        tensor([[1., 0., 0., 0., 1., 0.]])
        >>> from jsa import Bernoulli
        >>> answers.log_prob(Bernoulli(torch.tensor([[0.0, 3.0, 0.0]])), batch)  # two fair coins
        tensor([-1.3863])
    """

    mean: Tensor | None

    def __init__(
        self, layer: Layer, missing: bool, indicators: bool, mean: Float[Tensor, " width"] | None = None
    ) -> None:
        super().__init__()
        self.layer = layer
        self.missing = missing
        self.indicators = indicators
        self.register_buffer("mean", mean)

    @property
    def width(self) -> int:
        """The width of the input of the inference network."""
        return 2 * self.layer.width if self._are_added else self.layer.width

    def start_neutral(self, network: Perceptron) -> None:
        """Make a new inference network treat a missing value as a zero, or as the mean, until it has learned better.

        Otherwise a variable without missing values in training would meet random weights when one is missing later.
        """
        if self._are_added:
            torch.nn.init.zeros_(network.first.weight[:, self.layer.width : self.width])

    def seen(self, batch: Batch) -> Float[Tensor, "batch seen"]:
        """Return the input of the inference network: 0 for missing values, and beside them which ones are missing.

        A one-hot vector of zeros needs no indicator of its own. The mean is subtracted first, so that 0 stands for it.
        """
        missing = self._missing(batch)
        x = batch.x if self.mean is None else batch.x - self.mean
        there = x if missing is None else x.masked_fill(missing, 0)
        if not self._are_added:
            return there
        return torch.cat([there, torch.zeros_like(x) if missing is None else missing.to(x.dtype)], dim=-1)

    def log_prob(self, distribution: Factorized, batch: Batch) -> Float[Tensor, "*samples batch"]:
        """Return the log-probability of the observed values."""
        missing = self._missing(batch)
        if missing is None:
            return distribution.log_prob(batch.x)
        return distribution.leaving_out(missing).log_prob(batch.x.masked_fill(missing, 0))

    def _missing(self, batch: Batch) -> Bool[Tensor, "batch width"] | None:
        """Return where values are missing; None if nowhere, which a sum finds out in a fifteenth of the time."""
        if not self.missing or batch.gaps is False or (batch.gaps is None and not bool(batch.x.sum().isnan())):
            return None
        return batch.x.isnan()

    @property
    def _are_added(self) -> bool:
        return self.missing and self.indicators and self.layer.kind != "categorical"
