"""Deterministic networks: the context given apart is the context concatenated."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from jsa import Style
from jsa.models.networks import Perceptron


@pytest.mark.parametrize("hidden", [(), (7,), (7, 5)])
def test_context_apart_is_context_concatenated(hidden: tuple[int, ...]) -> None:
    network = Perceptron(3, hidden, 4, context=2).double()
    main = torch.randn(6, 5, 3, dtype=torch.float64)
    context = torch.randn(5, 2, dtype=torch.float64)
    joined = torch.cat([main, context.expand(6, -1, -1)], dim=-1)
    on_joined = Perceptron(5, hidden, 4).double()
    on_joined.load_state_dict(network.state_dict())
    assert torch.allclose(network(main, network.of_context(context)), on_joined(joined), atol=1e-12, rtol=0)
    found = torch.autograd.grad(network(main, network.of_context(context)).square().sum(), list(network.parameters()))
    expected = torch.autograd.grad(on_joined(joined).square().sum(), list(on_joined.parameters()))
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-9, rtol=0)


ACTIVATIONS: list[tuple[Style, nn.Module]] = [
    (Style(activation="leaky-relu", negative_slope=0.3), nn.LeakyReLU(0.3)),
    (Style(activation="relu"), nn.ReLU()),
    (Style(activation="tanh"), nn.Tanh()),
    (Style(activation="elu"), nn.ELU()),
    (Style(activation="gelu"), nn.GELU()),
]


@pytest.mark.parametrize(("style", "between"), ACTIVATIONS)
def test_network_is_the_layers_with_the_activation_between_them(style: Style, between: nn.Module) -> None:
    network = Perceptron(3, (7, 5), 4, style=style)
    linear = list(network.layers)
    by_hand = nn.Sequential(linear[0], between, linear[1], between, linear[2])
    main = torch.randn(6, 3)
    assert torch.allclose(network(main), by_hand(main), atol=3e-7)
    assert len(list(network.parameters())) == 6


def test_xavier_weights_fill_glorots_range() -> None:
    network = Perceptron(300, (), 200, style=Style(initialization="xavier", initial_bias=-1.0))
    linear = network.first
    limit = (6 / 500) ** 0.5
    assert 0.99 * limit < linear.weight.abs().max() <= limit
    assert abs(linear.weight.std() / (limit / 3**0.5) - 1) < 0.02
    assert (linear.bias == -1).all()


def test_torchs_own_initialization_is_the_default() -> None:
    torch.manual_seed(4)
    network = Perceptron(30, (), 20)
    torch.manual_seed(4)
    expected = nn.Linear(30, 20)
    assert torch.equal(network.first.weight, expected.weight)
    assert torch.equal(network.first.bias, expected.bias)
