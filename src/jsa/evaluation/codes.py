"""Latent codes of rows, with one number per variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jsa.batch import Batch
from jsa.errors import UsageError
from jsa.evaluation.likelihood import evaluating
from jsa.evaluation.rows import Rows, in_chunks
from jsa.latent import LatentSpace, Layer
from jsa.model import LatentVariableModel
from jsa.model_calls import posterior_of
from jsa.posteriors import LayeredPosterior
from jsa.torch_contexts import seeded

ROWS_AT_ONCE = 1000


@dataclass(frozen=True)
class Codes:
    """The latent codes of rows.

    Attributes:
        states: A draw from q(h | x) for each row: bits as 0/1, classes as numbers, Gaussian variables as real numbers.
        means: The probabilities of the bits or classes of the first layer under q(h | x), or its means.
    """

    states: NDArray[np.uint8] | NDArray[np.float32]
    means: NDArray[np.float32]


def encode(model: LatentVariableModel, parts: Sequence[Rows], seed: int = 0) -> Codes:
    """Return the codes of all rows, one part of the data after the other."""
    states, means = [], []
    with evaluating(model), seeded(seed):
        for rows in parts:
            for batch in in_chunks(rows, ROWS_AT_ONCE):
                posterior = layered_posterior(model, batch)
                states.append(compact(model.latent, posterior.sample(())).numpy())
                means.append(posterior.first.mean.numpy())
    return Codes(np.concatenate(states), np.concatenate(means))


def layered_posterior(model: LatentVariableModel, batch: Batch) -> LayeredPosterior:
    """Return q(h | x) of a batch as a LayeredPosterior, or refuse a model with another kind."""
    posterior = posterior_of(model, batch)
    if posterior.layers is None:
        raise UsageError(
            f"codes are the means of a jsa.LayeredPosterior, and a {posterior.name} is none: return one from the "
            "model's method posterior"
        )
    return posterior.layers


def most_probable(layer: Layer, mean: Tensor) -> Tensor:
    """Return the most probable value of each variable, given its probability of a one or of each class.

    >>> most_probable(Layer("bernoulli", 2), torch.tensor([[0.3, 0.8]]))
    tensor([[0, 1]], dtype=torch.uint8)
    """
    return class_numbers(layer, mean > 0.5 if layer.kind == "bernoulli" else mean)


def class_numbers(layer: Layer, values: Tensor) -> Tensor:
    """Return variables of a layer's kind with one number each.

    >>> class_numbers(Layer("categorical", 2, classes=3), torch.tensor([[0.0, 0.0, 1.0]]))
    tensor([[2]], dtype=torch.uint8)
    """
    variables = values.shape[-1] // (layer.width // layer.variables)
    return compact(LatentSpace.of(replace(layer, variables=variables)), values)


def compact(latent: LatentSpace, h: Tensor) -> Tensor:
    """Return states with one number per variable, as uint8 if all layers are discrete.

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
