"""The summed softplus: the same numbers as the definition, at every width, size and extreme."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from jsa import distributions
from jsa.distributions import softplus_sum


@pytest.fixture(autouse=True)
def products_at_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributions, "WORTHWHILE", 0)


def reference(logits: Tensor) -> Tensor:
    return F.softplus(logits.double()).sum(-1)


@pytest.mark.parametrize("width", [1, 2, 3, 49, 50, 200, 392, 784])
def test_it_is_the_sum_of_softplus(width: int) -> None:
    torch.manual_seed(width)
    logits = 4 * torch.randn(3, 5, width)
    expected = reference(logits)
    assert torch.allclose(softplus_sum(logits).double(), expected, rtol=2e-6, atol=2e-6)
    assert torch.allclose(softplus_sum(logits.double()), expected, rtol=1e-13, atol=1e-13)


def test_both_ways_agree_where_one_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(7, 784)
    products = softplus_sum(logits)
    monkeypatch.setattr(distributions, "WORTHWHILE", 10**9)
    assert torch.allclose(products, softplus_sum(logits), rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 1e-30, -1e-30, 17.0, -17.0, 88.0, -88.0, 1e4, -1e4, 3e38, -3e38])
def test_extreme_logits_neither_overflow_nor_underflow(value: float) -> None:
    logits = torch.full((2, 16), value / 16 if abs(value) > 1e37 else value)
    assert torch.allclose(softplus_sum(logits).double(), reference(logits), rtol=1e-6, atol=1e-6)
    logits.requires_grad_()
    (slope,) = torch.autograd.grad(softplus_sum(logits).sum(), logits)
    assert torch.allclose(slope, logits.sigmoid())


def test_derivatives_of_both_orders() -> None:
    torch.manual_seed(3)
    logits = torch.randn(2, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(softplus_sum, (logits,))
    assert torch.autograd.gradgradcheck(softplus_sum, (logits,))


def test_it_can_be_mapped_over_a_dimension() -> None:
    logits = torch.randn(4, 3, 8)
    mapped = torch.func.vmap(torch.func.grad(lambda row: softplus_sum(row).sum()))(logits)
    assert torch.allclose(mapped, logits.sigmoid())


def test_the_logits_stay_as_they_are() -> None:
    logits = torch.randn(3, 8)
    before = logits.clone()
    softplus_sum(logits)
    assert torch.equal(logits, before)
