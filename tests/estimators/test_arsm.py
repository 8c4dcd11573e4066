"""ARSM: its swaps, and its expectation cell by cell of the simplex."""

from __future__ import annotations

from itertools import pairwise, permutations, product

import pytest
import torch
from torch import Tensor

from helpers.conformance.antithetic import WrongNoise
from helpers.significance import assert_frequencies
from helpers.small_models import Example, categorical
from jsa import LatentSpace, Layer
from jsa.distributions import Bernoulli, Categorical
from jsa.estimators.antithetic import Coupling
from jsa.estimators.arm import ARM
from jsa.estimators.arsm import ARSM
from jsa.testing.gradients import repeated


def test_arsm_of_two_classes_is_arm() -> None:
    # With pi = (u, 1 - u) the unswapped state is b1, the swapped one b2, and the logit is the difference of the two.
    u = torch.rand(1, 4, 3, dtype=torch.float64)
    logits = torch.randn(4, 3, 2, dtype=torch.float64)
    bit = Bernoulli(logits[..., 1] - logits[..., 0])
    pair = Categorical(logits.flatten(-2), 2)
    simplex = torch.stack([u, 1 - u], dim=-1)
    noise = torch.stack([simplex, simplex.flip(-1)])
    drawn = ARSM().draw(pair, noise)
    bits = bit.from_uniforms(torch.stack([1 - u, u]))
    assert torch.equal(drawn.unflatten(-1, (3, 2))[..., 1], bits)

    signals = torch.randn(2, 1, 4, dtype=torch.float64)
    nothing = torch.zeros_like(signals)
    categorical_gradient = ARSM().logit_gradient(Coupling(pair.logits, noise, drawn, nothing), signals)
    arm = ARM().logit_gradient(Coupling(bit.logits, torch.stack([1 - u, u]), bits, nothing), signals)
    assert (categorical_gradient.unflatten(-1, (3, 2)) - torch.stack([-arm, arm], dim=-1)).abs().max() < 1e-12


@pytest.mark.parametrize("branch", [0, 1, 3])
def test_every_swapped_state_follows_the_inference_model(branch: int) -> None:
    example = categorical()
    batch = repeated(example.batch.take(torch.tensor([0])), 100_000)
    noise = ARSM().noise(example.model.latent.layers[0], len(batch), batch.x)
    states = ARSM().draw(Example(example.model, batch).layers.first, noise)[branch, 0]
    numbers = (states.unflatten(-1, (2, 3)).argmax(-1) * torch.tensor([3, 1])).sum(-1)
    assert_frequencies(numbers, example.exact.inference[:, 0])


def divided(polygon: list[Tensor], normal: Tensor) -> list[list[Tensor]]:
    """The parts of a convex polygon on either side of a plane through the origin."""
    heights = [float(normal @ corner) for corner in polygon]
    parts = []
    for side in (1, -1):
        part = []
        for corner, height, following, next_height in zip(
            polygon, heights, polygon[1:] + polygon[:1], heights[1:] + heights[:1], strict=True
        ):
            if side * height >= 0:
                part.append(corner)
            if height * next_height < 0:
                part.append((corner * next_height - following * height) / (next_height - height))
        if len(part) > 2:
            parts.append(part)
    return parts


def cells(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The centroids of the parts of the simplex of three classes in which no swap changes a state, and their shares.

    The states change where pi_a exp(-l_b) = pi_c exp(-l_d), for any classes a, c that stand in the places b, d.
    """
    pieces = [list(torch.eye(3, dtype=torch.float64))]
    for (a, c), (b, d) in product(((0, 1), (0, 2), (1, 2)), permutations(range(3), 2)):
        normal = torch.zeros(3, dtype=torch.float64)
        normal[a], normal[c] = (-logits[b]).exp(), -(-logits[d]).exp()
        pieces = [part for piece in pieces for part in divided(piece, normal)]
    # Each polygon falls into triangles; the centroid of a triangle integrates what is linear in pi.
    triangles = torch.stack([torch.stack([piece[0], *edge]) for piece in pieces for edge in pairwise(piece[1:])])
    # The determinant of the corners is the area in units of that of the simplex.
    return triangles.mean(1), torch.linalg.det(triangles).abs()


@pytest.mark.parametrize(("kind", "exact"), [(ARSM, True), (WrongNoise, False)])
def test_expected_logit_gradient_of_arsm_is_exact(kind: type[ARSM], exact: bool) -> None:
    # Two variables of three classes: within a pair of cells the states are constant and the gradient is linear.
    logits = torch.tensor([0.3, -1.1, 0.8, -0.2, 0.9, -0.5], dtype=torch.float64, requires_grad=True)
    layer = Layer("categorical", 2, classes=3)
    states = LatentSpace.of(layer).enumerate(torch.float64)
    log_inference = Categorical(logits, 3).log_prob(states)
    table = torch.randn(9, dtype=torch.float64)
    (expected,) = torch.autograd.grad((log_inference.exp() * (table - log_inference)).sum(), logits)

    (first, first_shares), (second, second_shares) = (cells(part) for part in logits.detach().split(3))
    shares = torch.outer(first_shares, second_shares).flatten()
    assert abs(shares.sum() - 1) < 1e-12
    rows, columns = torch.cartesian_prod(torch.arange(len(first)), torch.arange(len(second))).T
    simplex = torch.stack([first[rows], second[columns]], dim=1).unsqueeze(0)
    orders = torch.tensor([[0, 1, 2], [1, 0, 2], [2, 1, 0], [0, 2, 1]])
    noise = torch.stack([simplex[..., order] for order in orders])
    drawn = kind().draw(Categorical(logits.detach(), 3), noise)
    place = torch.tensor([0.0, 3.0, 6.0, 0.0, 1.0, 2.0], dtype=torch.float64)
    signals = (table - log_inference.detach())[(drawn * place).sum(-1).long()]
    coupling = Coupling(logits.detach().expand(len(shares), -1), noise, drawn, torch.zeros_like(signals))
    found = (shares.unsqueeze(-1) * kind().logit_gradient(coupling, signals)[0]).sum(0)
    assert ((found - expected).abs().max() < 1e-12) == exact


def test_impossible_classes_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.tensor([[0.0, -100.0, 40.0]])
    for constant in (0.0, 1 - 2.0**-24):
        uniforms = torch.tensor([0.5, constant, 0.5])
        monkeypatch.setattr(torch, "rand", lambda size, uniforms=uniforms, **options: uniforms.expand(size))
        noise = ARSM().noise(Layer("categorical", 1, classes=3), 1, logits)
        states = ARSM().draw(Categorical(logits, 3), noise)
        assert (states == torch.tensor([0.0, 0.0, 1.0])).all()
