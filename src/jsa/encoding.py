"""Latent codes of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from jsa.assembly import Model
from jsa.data import Dataset, in_order
from jsa.evaluation.likelihood import evaluating
from jsa.latent import LatentSpace

ROWS_AT_ONCE = 1000


@dataclass(frozen=True)
class Codes:
    """The codes of some rows.

    Attributes:
        states: A draw from q(h | x) a row: bits as 0/1, the class number of a categorical variable, real numbers.
        means: The probabilities that the inference model gives to the first layer's bits or classes, or its means.
    """

    states: NDArray[np.uint8] | NDArray[np.float32]
    means: NDArray[np.float32]


def encode(model: Model, rows: Dataset, seed: int = 0) -> Codes:
    """The latent codes of all rows, in their order."""
    states, means = [], []
    with evaluating(model), torch.random.fork_rng():
        torch.manual_seed(seed)
        for index in in_order(len(rows), ROWS_AT_ONCE):
            posterior = model.posterior(rows.batch(index))
            states.append(compact(model.latent, posterior.sample(())).numpy())
            means.append(posterior.first.mean.numpy())
    return Codes(np.concatenate(states), np.concatenate(means))


def compact(latent: LatentSpace, h: torch.Tensor) -> torch.Tensor:
    """States with one number a variable: uint8 where all layers are discrete.

    >>> from jsa import Layer
    >>> space = LatentSpace.of(Layer("categorical", 2, classes=3), Layer("bernoulli", 1))
    >>> compact(space, torch.tensor([[0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0]]))
    tensor([[1, 2, 1]], dtype=torch.uint8)
    """
    parts = []
    for layer, where in zip(latent.layers, latent.slices, strict=True):
        part = h[..., where]
        if layer.kind == "categorical":
            part = part.unflatten(-1, (layer.variables, layer.classes)).argmax(-1)
        parts.append(part if layer.kind == "gaussian" else part.to(torch.uint8))
    return torch.cat(parts, dim=-1)
