"""Ancestral samples of a trained model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from jsa.distributions import Factorized
from jsa.errors import UsageError
from jsa.evaluation.codes import class_numbers, compact
from jsa.evaluation.rows import Rows, Subset
from jsa.latent import LatentSpace
from jsa.model import Generative, LatentVariableModel
from jsa.torch_contexts import seeded


@dataclass(frozen=True)
class Samples:
    """Samples of a model.

    Attributes:
        h: The latent states, drawn from the prior.
        observed: p(x | h) of each state.
        x: A draw from it.
        contexts: The context of each sample, for a conditional model.
    """

    h: Tensor
    observed: Factorized
    x: Tensor
    contexts: Tensor | None

    @property
    def means(self) -> Tensor:
        """The means of whole rows, which begin with the context for a conditional model."""
        means = self.observed.mean
        return means if self.contexts is None else torch.cat([self.contexts, means], dim=-1)

    def arrays(self, latent: LatentSpace) -> dict[str, Tensor]:
        """Return states, means, draws and contexts with one number per variable; means remain probabilities."""
        layer = self.observed.layer
        arrays = {
            "h": compact(latent, self.h),
            "mean": self.observed.mean,
            "x": class_numbers(layer, self.x),
        }
        if self.contexts is not None:
            arrays["context"] = class_numbers(layer, self.contexts)
        return arrays

    @property
    def rows(self) -> Tensor:
        """The draws as rows of class numbers, which begin with the context for a conditional model."""
        layer = self.observed.layer
        parts = [self.x] if self.contexts is None else [self.contexts, self.x]
        return torch.cat([class_numbers(layer, part) for part in parts], dim=-1)


@torch.no_grad()
def sample_rows(model: Generative, count: int, seed: int, contexts: Tensor | None = None) -> Samples:
    """Draw this many ancestral samples, or one for each context."""
    with seeded(seed):
        h = model.sample_latent((count,) if contexts is None else (), contexts)
        observed = model.observation(h, contexts)
        return Samples(h, observed, observed.sample(), contexts)


def contexts_of(rows: Rows, count: int) -> Tensor | None:
    """Return the contexts of this many rows, spread evenly; None for rows without context."""
    return rows.batch(Subset.spread(rows, count).numbers).context


def generative(model: LatentVariableModel) -> Generative:
    """Return the model, or refuse one that cannot be sampled."""
    if not isinstance(model, Generative):
        raise UsageError(
            f"p(x | h) is needed, but {type(model).__name__} does not define it: write its methods sample_latent and "
            "observation"
        )
    return model
