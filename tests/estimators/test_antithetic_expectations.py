"""ARM and DisARM are exact in expectation: piece by piece of their noise, without sampling error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from helpers.antithetic_noise import PAIRS, with_noise
from helpers.conformance.antithetic import FlatARM, SharedARM, WithoutTheProbability
from helpers.small_models import (
    STYLE,
    Example,
    Gradients,
    conditional,
    gradients,
    largest_difference,
    one_layer,
    randomize,
)
from helpers.targets import elbo_gradients
from jsa import Batch, BeliefNetwork, LatentSpace, LatentVariableModel, Layer
from jsa.estimators.antithetic import AntitheticPairs

Kind = Callable[[], AntitheticPairs]


def layers_of_bits(*sizes: int, seed: int = 7) -> Example:
    """So many bits in each layer."""
    latent = LatentSpace(tuple(Layer("bernoulli", size) for size in sizes))
    network = BeliefNetwork(Layer("bernoulli", 4), latent, (3,), prior="learned", style=STYLE)
    x = torch.tensor([[0, 1, 1, 0]], dtype=torch.float64)
    return Example(randomize(network, seed), Batch(x, torch.arange(1)))


# Small enough for all combinations of pieces, of which a layer has more the more ancestors it may have.
two_small_layers, three_small_layers = partial(layers_of_bits, 2, 1), partial(layers_of_bits, 1, 1, 1)


def breakpoints(model: LatentVariableModel, batch: Batch, layer: int) -> Tensor:
    """For each bit of a layer, where its draw or its antithetic draw can change, whatever its ancestors."""
    posterior = Example(model, batch).layers
    ancestors = torch.zeros(1, 1, 0, dtype=torch.float64)
    if layer > 0:
        ancestors = LatentSpace(model.latent.layers[:layer]).enumerate(torch.float64).unsqueeze(1)
    with torch.no_grad():
        probabilities = posterior.conditional(layer, ancestors).mean.reshape(-1, model.latent.layers[layer].variables)
    return torch.cat([probabilities, 1 - probabilities]).T


def boxes(model: LatentVariableModel, batch: Batch) -> Iterator[tuple[list[Tensor], float]]:
    """The midpoint and the volume of each box of the uniforms of a batch of one, by layer.

    Between the breakpoints the states are constant and ARM's factor is linear, so that the midpoint stands for the box.
    """
    sides = []
    for layer in range(len(model.latent.layers)):
        for points in breakpoints(model, batch, layer):
            edges = [0.0, *sorted(points.tolist()), 1.0]
            sides.append([((left + right) / 2, right - left) for left, right in pairwise(edges) if right > left])
    sizes = [layer.variables for layer in model.latent.layers]
    for box in product(*sides):
        middle = torch.tensor([[[middle for middle, _ in box]]], dtype=torch.float64)
        yield list(middle.split(sizes, dim=-1)), math.prod(length for _, length in box)


def gradient_in_box(kind: Kind, model: LatentVariableModel, batch: Batch, u: list[Tensor]) -> Gradients:
    estimator = with_noise(kind(), (torch.stack([1 - uniforms, uniforms]) for uniforms in u))
    return gradients(model, estimator(model, batch).loss)


def rows(example: Example) -> list[Batch]:
    """The rows of an example, each as a batch of one."""
    return [example.batch.take(torch.tensor([row])) for row in range(len(example.batch))]


def expected_gradient(kind: Kind, model: LatentVariableModel, batch: Batch) -> Gradients:
    """The expectation of the estimator's gradient for a batch of one."""
    total = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    volumes = 0.0
    for u, volume in boxes(model, batch):
        volumes += volume
        for name, gradient in gradient_in_box(kind, model, batch, u).items():
            total[name] += volume * gradient
    assert abs(volumes - 1) < 1e-12
    return total


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("make", [one_layer, conditional, two_small_layers, three_small_layers])
def test_expected_gradient_is_exact(kind: Kind, make: Callable[[], Example]) -> None:
    # In all parameters, not the logits alone: the encoder before them and the decoder beside them included.
    example = make()
    for batch in rows(example):
        expected = elbo_gradients(example.model, batch)
        assert largest_difference(expected_gradient(kind, example.model, batch), expected) < 1e-12


@pytest.mark.parametrize(
    ("kind", "make"), [(SharedARM, two_small_layers), (FlatARM, two_small_layers), (WithoutTheProbability, one_layer)]
)
def test_expected_gradient_of_wrong_twins_is_not(kind: Kind, make: Callable[[], Example]) -> None:
    example = make()
    batch, *_ = rows(example)
    expected = elbo_gradients(example.model, batch)
    assert largest_difference(expected_gradient(kind, example.model, batch), expected) > 1e-3


def test_disarm_is_the_expectation_of_arm_given_its_states() -> None:
    # Over a box in which the states are constant the mean of ARM's gradient is that at the midpoint.
    example = one_layer()
    batch, *_ = rows(example)
    for u, _ in boxes(example.model, batch):
        arm, disarm = (gradient_in_box(kind, example.model, batch, u) for kind in PAIRS)
        assert largest_difference(arm, disarm) < 1e-12
