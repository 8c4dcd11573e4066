"""Latent codes of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from jsa.data import Dataset, Splits, in_order
from jsa.evaluation.likelihood import evaluating
from jsa.latent import LatentSpace, Layer
from jsa.runs.build import Model
from jsa.torch_contexts import seeded

ROWS_AT_ONCE = 1000


@dataclass(frozen=True)
class Codes:
    """The codes of some rows.

    Attributes:
        states: A draw from q(h | x) a row: bits as 0/1, the class number of a categorical variable, real numbers.
        means: The probabilities that the inference model gives to the first layer's bits or classes, or its means.
        rows: The number of each row, from 0, in the table that it is from.
        parts: Which part of the data each row belongs to: train, valid or test. None for rows that are no part of it.
        labels: The class of each row, where it is known.
    """

    states: NDArray[np.uint8] | NDArray[np.float32]
    means: NDArray[np.float32]
    rows: NDArray[np.int64]
    parts: NDArray[np.str_] | None = None
    labels: NDArray[np.uint8] | None = None


def encode(model: Model, rows: Dataset, seed: int = 0) -> Codes:
    """The latent codes of all rows, in their order."""
    states, means = _draw(model, [rows], seed)
    return Codes(states, means, np.arange(len(rows)), labels=_labels([rows]))


def encode_splits(model: Model, splits: Splits, parts: Sequence[str], seed: int = 0) -> Codes:
    """The latent codes of some parts of the data.

    All parts of one table come in the order of that table, other parts one after the other.
    """
    datasets = [splits.parts[part] for part in parts]
    states, means = _draw(model, datasets, seed)
    rows = np.concatenate([splits.row_numbers(part) for part in parts])
    names = np.repeat(np.array(parts), [len(dataset) for dataset in datasets])
    labels = _labels(datasets)
    order = np.argsort(rows) if splits.of_one_table else np.arange(len(rows))
    return Codes(
        states[order], means[order], rows[order], names[order], labels=None if labels is None else labels[order]
    )


def _draw(
    model: Model, datasets: Sequence[Dataset], seed: int
) -> tuple[NDArray[np.uint8] | NDArray[np.float32], NDArray[np.float32]]:
    """States and means of the rows of all datasets, one after the other."""
    states, means = [], []
    with evaluating(model), seeded(seed):
        for rows in datasets:
            for index in in_order(len(rows), ROWS_AT_ONCE):
                posterior = model.posterior(rows.batch(index))
                states.append(compact(model.latent, posterior.sample(())).numpy())
                means.append(posterior.first.mean.numpy())
    return np.concatenate(states), np.concatenate(means)


def _labels(datasets: Sequence[Dataset]) -> NDArray[np.uint8] | None:
    """The labels of all rows, where all have some."""
    found = [rows.labels.numpy() for rows in datasets if rows.labels is not None]
    return np.concatenate(found) if len(found) == len(datasets) else None


def most_probable(layer: Layer, mean: torch.Tensor) -> torch.Tensor:
    """The most probable value of each variable, by the probabilities of ones or of classes.

    >>> most_probable(Layer("bernoulli", 2), torch.tensor([[0.3, 0.8]]))
    tensor([[0, 1]], dtype=torch.uint8)
    """
    return compact(LatentSpace.of(layer), mean > 0.5 if layer.kind == "bernoulli" else mean)


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
