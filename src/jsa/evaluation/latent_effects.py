"""The effects of the latent variables next to the data on the observed variables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from jsa.errors import UsageError
from jsa.evaluation.ancestral_samples import generative
from jsa.evaluation.codes import layered_posterior
from jsa.evaluation.likelihood import evaluating
from jsa.evaluation.rows import Progress, Rows, in_chunks
from jsa.latent import Layer
from jsa.model import LatentVariableModel
from jsa.torch_contexts import seeded

ROWS_AT_ONCE = 1000


@dataclass(frozen=True)
class Effects:
    """The effect of each variable of the first layer, averaged over rows.

    Attributes:
        shares: The probability of each value of each variable under q(h | x): 0 and 1 of a bit, or the classes.
        means: The mean of p(x | h) with the variable set to the value and the rest of h drawn from q.
    """

    shares: Float[Tensor, "variables values"]
    means: Float[Tensor, "variables values observed"]

    @cached_property
    def usual(self) -> Float[Tensor, "variables observed"]:
        """The mean of p(x | h) with the values of the variable weighted by their shares."""
        return (self.shares.unsqueeze(-1) * self.means).sum(1)

    @cached_property
    def explained(self) -> Float[Tensor, " variables"]:
        """The variance of x, summed over its columns, that each variable explains: 0 for one without effect."""
        deviations = self.means - self.usual.unsqueeze(1)
        return (self.shares.unsqueeze(-1) * deviations.square()).sum((1, 2))

    @property
    def strongest(self) -> list[int]:
        """The variables, ordered from the one that explains most."""
        return self.explained.argsort(descending=True).tolist()

    def changes(self, variable: int) -> list[tuple[Float[Tensor, " observed"], Float[Tensor, " observed"]]]:
        """Return the mean of p(x | h) before and after a change: a bit from 0 to 1, or the usual mean to each class."""
        means = self.means[variable]
        if len(means) == 2:
            return [(means[0], means[1])]
        return [(self.usual[variable], mean) for mean in means]


def effects(model: LatentVariableModel, rows: Rows, seed: int = 0, progress: Progress | None = None) -> Effects:
    """Set each variable of the first layer to each of its values for each row, and record the mean of p(x | h).

    Args:
        model: The model.
        rows: The rows for which states are drawn.
        seed: The seed of the draws from q(h | x).
        progress: Called with the number of rows done.
    """
    decoder, layer = generative(model), model.latent.layers[0]
    if layer.kind == "gaussian":
        raise UsageError("effects need discrete latent variables, but those of this model are Gaussian: use jsa encode")
    values = torch.tensor(list(Layer(layer.kind, 1, layer.classes).enumerate()))
    shares = torch.zeros(layer.variables, len(values))
    means = torch.zeros(layer.variables, len(values), rows.batch(torch.arange(1)).x.shape[-1])
    with evaluating(model), seeded(seed):
        for batch in in_chunks(rows, ROWS_AT_ONCE, progress=progress):
            posterior = layered_posterior(model, batch)
            shares += _probabilities(layer, posterior.first.mean).sum(0)
            h = posterior.sample(())
            for variable, part in enumerate(h[:, : layer.width].unflatten(-1, (layer.variables, -1)).unbind(1)):
                # A view of h: the variable is changed in place and restored.
                drawn = part.clone()
                for number, value in enumerate(values):
                    part.copy_(value.expand_as(part))
                    means[variable, number] += decoder.observation(h, batch.context).mean.sum(0)
                part.copy_(drawn)
    return Effects(shares / len(rows), means / len(rows))


def _probabilities(layer: Layer, mean: Float[Tensor, "batch width"]) -> Float[Tensor, "batch variables values"]:
    """Return the probability of each value of each variable."""
    if layer.kind == "bernoulli":
        return torch.stack([1 - mean, mean], dim=-1)
    return mean.unflatten(-1, (layer.variables, layer.classes))
