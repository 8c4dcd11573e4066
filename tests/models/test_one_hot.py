"""The product with one-hot vectors by gathering: the same numbers, and never for vectors that are not one-hot."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from jsa.models.networks import Perceptron, gather_sum, gather_sum_wins

VARIABLES, CLASSES = 4, 5


def one_hot(*batch: int, dtype: torch.dtype = torch.float64) -> Tensor:
    classes = torch.randint(CLASSES, (*batch, VARIABLES))
    return nn.functional.one_hot(classes, CLASSES).flatten(-2).to(dtype)


def network(*, one_hot_classes: int) -> Perceptron:
    torch.manual_seed(2)
    return Perceptron(VARIABLES * CLASSES, (7,), 3, one_hot=one_hot_classes).double()


@pytest.mark.parametrize("batch", [(6,), (3, 6), (2, 3, 6)])
def test_gathering_is_the_product(batch: tuple[int, ...]) -> None:
    linear = nn.Linear(VARIABLES * CLASSES, 3).double()
    h = one_hot(*batch)
    assert torch.allclose(gather_sum(h, linear.weight, linear.bias, CLASSES), linear(h), atol=1e-12, rtol=0)


@torch.no_grad()
def test_a_network_gives_the_same_with_it() -> None:
    h = one_hot(3, 6)
    assert gather_sum_wins(h, CLASSES)
    assert torch.allclose(network(one_hot_classes=CLASSES)(h), network(one_hot_classes=0)(h), atol=1e-12, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_relaxed_vectors_are_multiplied(dtype: torch.dtype) -> None:
    h = one_hot(40, 200, dtype=dtype)
    assert gather_sum_wins(h, CLASSES)
    h[7, 8, :CLASSES] = torch.tensor([0, 0, 0, 2e-6, 1 - 2e-6], dtype=dtype)
    assert not gather_sum_wins(h, CLASSES)
    relaxed = torch.softmax(10 * torch.randn(6, VARIABLES, CLASSES, dtype=torch.float64), -1).flatten(-2)
    assert torch.equal(network(one_hot_classes=CLASSES)(relaxed), network(one_hot_classes=0)(relaxed))


def test_a_pass_that_keeps_a_graph_is_a_product() -> None:
    assert not gather_sum_wins(one_hot(6), CLASSES)
