"""The models of the paper: sizes, initial values and activations."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from torch import nn

from helpers.refusals import refuses
from jsa import BeliefNetwork, Layer, StructuredPrediction
from jsa.models.networks import Perceptron
from jsa.models.presets import MODELS, preset
from jsa.models.registry import build_model

DIGITS = Layer("bernoulli", 784)
HALF = Layer("bernoulli", 392)

SIZES: dict[str, list[tuple[int, ...]]] = {
    "linear": [(784, 200), (200, 784)],
    "nonlinear": [(784, 200, 200, 200), (200, 200, 200, 784)],
    "two-layers": [(784, 200), (200, 200), (200, 784), (200, 200)],
    "categorical": [(784, 512, 256, 200), (200, 256, 512, 784)],
    # The networks of q(h | x, c), p(x | h, c) and p(h | c).
    "structured": [(784, 200, 200, 50), (442, 200, 200, 392), (392, 200, 200, 50)],
}


def build(name: str) -> BeliefNetwork | StructuredPrediction:
    return build_model(preset(name), *((HALF, 392) if name == "structured" else (DIGITS,)))


def networks(model: nn.Module) -> list[Perceptron]:
    return [module for module in model.modules() if isinstance(module, Perceptron)]


def linears(network: nn.Module) -> list[nn.Linear]:
    return [module for module in network.modules() if isinstance(module, nn.Linear)]


def widths(network: Perceptron) -> tuple[int, ...]:
    return (network.first.in_features, *(linear.out_features for linear in linears(network)))


@pytest.mark.parametrize("name", MODELS)
def test_networks_have_the_sizes_of_the_paper(name: str) -> None:
    model = build(name)
    assert sorted(widths(network) for network in networks(model)) == sorted(SIZES[name])
    # Weights and biases of these networks and nothing else.
    expected = sum((before + 1) * after for sizes in SIZES[name] for before, after in itertools.pairwise(sizes))
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("linear", [Layer("bernoulli", 200)]),
        ("nonlinear", [Layer("bernoulli", 200)]),
        ("two-layers", [Layer("bernoulli", 200), Layer("bernoulli", 200)]),
        ("categorical", [Layer("categorical", 20, classes=10)]),
        ("structured", [Layer("bernoulli", 50)]),
    ],
)
def test_latents_are_those_of_the_paper(name: str, layers: list[Layer]) -> None:
    assert list(build(name).latent.layers) == layers


@pytest.mark.parametrize(("name", "bias"), [("linear", -1), ("two-layers", -1), ("categorical", 0)])
def test_some_start_with_xavier_weights_and_equal_biases(name: str, bias: float) -> None:
    for linear in linears(build(name)):
        limit = (6 / (linear.in_features + linear.out_features)) ** 0.5
        assert 0.99 * limit < linear.weight.abs().max() <= limit
        assert (linear.bias == bias).all()


@pytest.mark.parametrize("name", ["nonlinear", "structured"])
def test_the_others_start_as_torch_does(name: str) -> None:
    for linear in linears(build(name)):
        limit = linear.in_features**-0.5
        assert 0.98 * limit < linear.weight.abs().max() <= limit
        assert linear.bias.abs().max() <= limit
        assert linear.bias.unique().numel() > 1


@pytest.mark.parametrize(("name", "slope"), [("nonlinear", 0.01), ("categorical", 0.2)])
def test_slopes_below_zero(name: str, slope: float) -> None:
    for network in networks(build(name)):
        assert isinstance(network.activation, nn.LeakyReLU)
        assert network.activation.negative_slope == slope


def test_structured_prediction_uses_tanh() -> None:
    values = torch.linspace(-30, 30, 1001, dtype=torch.float64)
    for network in networks(build("structured")):
        assert torch.allclose(network.activation(values.clone()), values.tanh(), atol=1e-15, rtol=0)


@pytest.mark.parametrize("name", ["linear", "nonlinear", "two-layers", "categorical"])
def test_the_prior_is_fixed_and_fair(name: str) -> None:
    model = build(name)
    assert isinstance(model, BeliefNetwork)
    assert not model.prior_parameters.requires_grad
    classes = max(2, model.latent.layers[-1].classes)
    assert torch.allclose(model.prior.mean, torch.full_like(model.prior.mean, 1 / classes))


NEEDS_A_CONTEXT = "a conditional model needs data with a context"

test_what_cannot_be_is_refused = refuses(
    (lambda: preset("nonlinaer"), "did you mean 'nonlinear'"),
    (lambda: build_model(preset("linear"), HALF, 392), NEEDS_A_CONTEXT),
    (lambda: build_model(preset("structured"), HALF, 0), NEEDS_A_CONTEXT),
    (lambda: replace(preset("linear"), latents=()), "the units of 1 layer or more"),
    (lambda: replace(preset("linear"), latents=(0,)), "latents must be 1 or more, not 0"),
    (lambda: replace(preset("linear"), hidden=(200, 0)), "hidden must be 1 or more, not 0"),
    (lambda: replace(preset("linear"), conditional=True, prior="learned", latents=(5, 5)), "one stochastic layer"),
)
