"""Vectors that are no values of a layer are refused, and what is between the states is not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from jsa import Bernoulli, Categorical, Factorized, Gaussian
from jsa.distributions import validating_values
from jsa.errors import UsageError

BITS = Bernoulli(torch.zeros(2, 12))
CLASSES = Categorical(torch.zeros(2, 12), classes=4)
NUMBERS = Gaussian(torch.zeros(2, 12), torch.zeros(2, 12))


@pytest.mark.parametrize("distribution", [BITS, CLASSES, NUMBERS], ids=["bits", "classes", "numbers"])
@pytest.mark.parametrize("width", [1, 3, 13])
def test_vectors_of_another_width_are_refused_always(distribution: Factorized, width: int) -> None:
    with pytest.raises(UsageError, match=f"of width 12,.* not of width {width}"):
        distribution.log_prob(torch.zeros(2, width))


@pytest.mark.parametrize(
    ("distribution", "h", "sentence"),
    [
        (BITS, torch.full((2, 12), 255.0), "12 bernoulli variables cannot have the value 255: a bit is 0 or 1"),
        (BITS, torch.full((2, 12), -1.0), "cannot have the value -1"),
        (BITS, torch.full((2, 12), torch.nan), "cannot have the value nan"),
        (CLASSES, torch.full((2, 12), 3.0), "3 categorical variables of 4 classes cannot have the value 3: a class is"),
        (CLASSES, torch.ones(2, 12), "cannot have a vector that sums to 4: a class is one-hot"),
    ],
)
def test_wrong_values_are_refused_with_care(distribution: Factorized, h: Tensor, sentence: str) -> None:
    distribution.log_prob(h)
    with validating_values(), pytest.raises(UsageError, match=sentence):
        distribution.log_prob(h)
    distribution.log_prob(h)


@pytest.mark.parametrize(
    ("distribution", "h"),
    [
        (BITS, torch.linspace(0, 1, 24).view(2, 12)),
        (CLASSES, CLASSES.sample()),
        (CLASSES, torch.rand(2, 3, 4).softmax(-1).flatten(1)),
        (CLASSES, torch.zeros(2, 12)),
        (NUMBERS, torch.full((2, 12), 255.0)),
    ],
    ids=["gray", "one-hot", "relaxed", "left-out", "numbers"],
)
def test_values_and_what_is_between_them_are_taken(distribution: Factorized, h: Tensor) -> None:
    with validating_values():
        distribution.log_prob(h)
