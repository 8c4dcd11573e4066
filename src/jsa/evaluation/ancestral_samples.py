"""Draws from a trained model, as arrays and as the rows of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jsa.data import Dataset
from jsa.data.schema import RowShape, written_columns
from jsa.distributions import Factorized
from jsa.evaluation.codes import compact
from jsa.latent import LatentSpace, Layer
from jsa.runs.build import Model
from jsa.torch_contexts import seeded


@dataclass(frozen=True)
class Samples:
    """Draws from a model.

    Attributes:
        h: The latent states, from the prior.
        observed: p(x | h) of each.
        x: A draw from it.
        contexts: What each was drawn given, for a conditional model.
    """

    h: Tensor
    observed: Factorized
    x: Tensor
    contexts: Tensor | None

    @property
    def means(self) -> Tensor:
        """The means of whole rows: behind their context for a conditional model."""
        means = self.observed.mean
        return means if self.contexts is None else torch.cat([self.contexts, means], dim=-1)


@torch.no_grad()
def sample_rows(model: Model, count: int, seed: int, contexts: Tensor | None = None) -> Samples:
    """Ancestral samples; one for each context where there are such."""
    with seeded(seed):
        h = model.sample_latent((count,) if contexts is None else (), contexts)
        observed = model.observation(h, contexts)
        return Samples(h, observed, observed.sample(), contexts)


def contexts_of(rows: Dataset, count: int) -> Tensor | None:
    """The contexts of the first rows, for a conditional model."""
    return rows.batch(torch.arange(min(count, len(rows)))).context


def as_arrays(samples: Samples, model: Model, shape: RowShape) -> dict[str, Tensor]:
    """States, means of what is observed, draws from it and contexts, as ``jsa encode`` writes them."""
    layer = samples.observed.layer
    arrays = {
        "h": compact(model.latent, samples.h),
        "mean": samples.observed.mean,
        "x": compact(LatentSpace.of(layer), samples.x),
    }
    if samples.contexts is not None:
        given = Layer(layer.kind, shape.context_columns, layer.classes)
        arrays["context"] = compact(LatentSpace.of(given), samples.contexts)
    return arrays


def as_table(samples: Samples, model: Model, shape: RowShape) -> dict[str, Any]:
    """The draws as rows of the data, by the names of its columns."""
    arrays = as_arrays(samples, model, shape)
    parts = [arrays[name].cpu().numpy() for name in ("context", "x") if name in arrays]
    return written_columns(shape, np.concatenate(parts, axis=1))
