"""Small models with rows of which values are missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from helpers.small_models import Example, categorical, conditional, one_layer, two_layers
from jsa import Batch, BeliefNetwork, LatentSpace, Layer, StructuredPrediction

GAPS: dict[str, tuple[Callable[..., Example], list[list[int]]]] = {
    "one-layer": (one_layer, [[0, 3], [2], []]),
    "two-layers": (partial(two_layers, seed=48), [[1], [], [0, 2, 3]]),
    "categorical": (categorical, [[1], [], [0]]),
    "conditional": (conditional, [[0, 1], [3], []]),
}
"""The models, and which variables are missing in each of their three rows."""


def observed(example: Example) -> Layer:
    """What its rows are made of."""
    assert isinstance(example.model, BeliefNetwork | StructuredPrediction)
    return example.model.observed


def with_gaps(name: str) -> Example:
    """A small model with rows of which values are missing, of each row others."""
    make, gaps = GAPS[name]
    example = make(missing=True)
    layer = observed(example)
    classes, x = layer.width // layer.variables, example.batch.x.clone()
    for row, variables in enumerate(gaps):
        for variable in variables:
            x[row, variable * classes : (variable + 1) * classes] = torch.nan
    return Example(example.model, replace(example.batch, x=x))


def completions(example: Example, row: int) -> Batch:
    """Every complete row that agrees with the values that are there."""
    every = LatentSpace.of(observed(example)).enumerate(torch.float64)
    there = example.batch.x[row]
    complete = every[((every == there) | there.isnan()).all(-1)]
    context = example.batch.context
    given = None if context is None else context[row].expand(len(complete), -1)
    return Batch(complete, torch.arange(len(complete)), given)


def probabilities_of_completions(example: Example, row: int) -> tuple[Tensor, Tensor]:
    """Those rows, and the probability of each given the values that are there."""
    batch = completions(example, row)
    states = example.model.latent.enumerate(torch.float64).unsqueeze(1).expand(-1, len(batch), -1)
    with torch.no_grad():
        return batch.x, example.model.log_joint(batch, states).logsumexp(0).softmax(0)
