"""The relaxations against their definitions: laws of the noise, densities by quadrature, limits and guards."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from helpers.significance import assert_frequencies, assert_mean
from helpers.sizes import sizes
from jsa import Bernoulli, Categorical, Gaussian, LatentSpace, Layer, LayeredPosterior
from jsa.errors import UsageError
from jsa.relaxation import (
    Discrete,
    conditionally_perturbed,
    discrete,
    entropy,
    hard,
    log_space,
    perturbed,
    positive,
    refuse_continuous,
    relaxed,
    relaxed_draw,
    relaxed_log_density,
    straight_through,
    uniforms_for,
)

DRAWS = pytest.mark.parametrize("draws", sizes(100_000, 4_000_000))

BITS = Bernoulli(torch.tensor([-1.3, 0.2, 2.1], dtype=torch.float64))
DICE = Categorical(torch.tensor([0.3, -1.0, 1.1, 2.0, 0.5, -0.7], dtype=torch.float64), classes=3)
BOTH = pytest.mark.parametrize("distribution", [BITS, DICE], ids=["bits", "dice"])


def noise(distribution: Discrete, draws: int) -> Tensor:
    return torch.rand(draws, distribution.layer.width, dtype=distribution.logits.dtype)


def features(z: Tensor) -> list[Tensor]:
    return [z, z.square(), z * z.roll(1, -1), (z / 0.3).sigmoid()]


@DRAWS
@BOTH
def test_hard_states_have_the_distribution(distribution: Discrete, draws: int) -> None:
    h = hard(distribution.layer, perturbed(distribution, noise(distribution, draws)))
    assert not h.requires_grad
    assert_mean(h, distribution.mean)
    space = LatentSpace.of(distribution.layer)
    states = space.enumerate(torch.float64)
    numbers = (h.unsqueeze(1) == states).all(-1).long().argmax(-1)
    assert_frequencies(numbers, distribution.log_prob(states).exp())


@DRAWS
@BOTH
def test_conditional_noise_keeps_its_state_and_has_the_law_of_the_noise(distribution: Discrete, draws: int) -> None:
    z = perturbed(distribution, noise(distribution, draws))
    h = hard(distribution.layer, z)
    again = conditionally_perturbed(distribution, h, noise(distribution, draws))
    assert torch.equal(hard(distribution.layer, again), h)
    # Moments, the product of neighbors and a bounded function: the joint law of z, not only each margin.
    for first, second in zip(features(z), features(again), strict=True):
        assert_mean(first - second, 0.0)
    # Given the state too, which shows that the noise is drawn for that state and not for another one.
    for state in LatentSpace.of(distribution.layer).enumerate(torch.float64)[:3]:
        there = (h == state).all(-1)
        first, second = z[there], conditionally_perturbed(distribution, state, noise(distribution, int(there.sum())))
        assert_mean(first - second, 0.0)


@BOTH
def test_conditional_noise_follows_the_published_formulas(distribution: Discrete) -> None:
    h = distribution.sample((100,))
    v = noise(distribution, 100)
    z = conditionally_perturbed(distribution, h, v)
    if isinstance(distribution, Bernoulli):
        s = distribution.mean
        published = distribution.logits + (h * (v * s + 1 - s) + (1 - h) * v * (1 - s)).logit()
    else:
        p = distribution.mean
        log_v = v.log().unflatten(-1, (2, 3))
        chosen = (log_v * h.unflatten(-1, (2, 3))).sum(-1, keepdim=True)
        others = -(-log_v / p.unflatten(-1, (2, 3)) - chosen).log()
        published = torch.where(h.unflatten(-1, (2, 3)) == 1, -(-log_v).log(), others).flatten(-2)
    torch.testing.assert_close(z, published, rtol=1e-10, atol=1e-10)


@BOTH
def test_relaxed_states_tend_to_hard_ones(distribution: Discrete) -> None:
    z = perturbed(distribution, noise(distribution, 1000))
    h = hard(distribution.layer, z)
    errors = [float((relaxed(distribution.layer, z, tau) - h).abs().mean()) for tau in (1.0, 0.1, 0.01)]
    assert errors[0] > 3 * errors[1] > 9 * errors[2]
    ordinary = relaxed(distribution.layer, z, 0.7)
    assert ((ordinary > 0) & (ordinary < 1)).all()
    point = log_space(distribution.layer, z, 0.7)
    back = point.sigmoid() if isinstance(distribution, Bernoulli) else point.exp()
    torch.testing.assert_close(back, ordinary)


@DRAWS
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_density_of_a_relaxed_bit_integrates_to_one_and_is_that_of_the_draws(temperature: float, draws: int) -> None:
    bit = Bernoulli(torch.tensor([0.8], dtype=torch.float64))
    points = torch.linspace(-200, 200, 400_001, dtype=torch.float64).unsqueeze(-1)
    density = relaxed_log_density(bit, points, temperature).exp()
    assert float(torch.trapezoid(density, points.squeeze(-1))) == pytest.approx(1, abs=1e-9)
    y = points.squeeze(-1).sigmoid()
    found = relaxed(bit.layer, perturbed(bit, noise(bit, draws)), temperature)
    assert_mean(found, float(torch.trapezoid(density * y, points.squeeze(-1))))


@DRAWS
@pytest.mark.parametrize("temperature", [0.4, 1.0])
def test_density_of_a_relaxed_class_is_that_of_its_draws(temperature: float, draws: int) -> None:
    """The mean ratio of another density to this one is one, if both are normalized and the draws follow this one."""
    other = Categorical(DICE.logits + torch.tensor([0.2, 0, -0.2, -0.3, 0.1, 0], dtype=torch.float64), classes=3)
    point = log_space(DICE.layer, perturbed(DICE, noise(DICE, draws)), temperature)
    here = relaxed_log_density(DICE, point, temperature)
    assert_mean((relaxed_log_density(other, point, temperature) - here).exp(), 1.0)
    # Two classes are a bit: the density of the logit of the first is known.
    logits = torch.tensor([0.9, -0.4], dtype=torch.float64)
    pair, bit = Categorical(logits, classes=2), Bernoulli(logits[:1] - logits[1:])
    s = torch.tensor([1.7], dtype=torch.float64)
    logarithms = torch.cat([-(1 + (-s).exp()).log(), -(1 + s.exp()).log()])
    torch.testing.assert_close(
        relaxed_log_density(pair, logarithms, temperature), relaxed_log_density(bit, s, temperature)
    )


def test_density_of_three_classes_integrates_to_one() -> None:
    """By quadrature over the log-ratios."""
    die = Categorical(torch.tensor([0.5, -0.3, 0.1], dtype=torch.float64), classes=3)
    temperature = torch.tensor(1.5, dtype=torch.float64)
    grid = torch.linspace(-30, 30, 1201, dtype=torch.float64)
    a, b = torch.meshgrid(grid, grid, indexing="ij")
    point = torch.stack([a, b, torch.zeros_like(a)], -1).log_softmax(-1)
    density = relaxed_log_density(die, point, temperature).exp()
    total = torch.trapezoid(torch.trapezoid(density, grid), grid)
    assert float(total) == pytest.approx(1, abs=1e-6)


@BOTH
def test_entropy_is_minus_the_expected_log_probability(distribution: Discrete) -> None:
    states = LatentSpace.of(distribution.layer).enumerate(torch.float64)
    log_prob = distribution.log_prob(states)
    torch.testing.assert_close(entropy(distribution), -(log_prob.exp() * log_prob).sum())


@BOTH
def test_straight_through_is_hard_with_the_relaxed_gradient(distribution: Discrete) -> None:
    z = perturbed(distribution, noise(distribution, 50)).requires_grad_()
    value = straight_through(distribution.layer, z, 0.5)
    assert torch.equal(value, hard(distribution.layer, z))
    weights = torch.randn_like(value)
    (ours,) = torch.autograd.grad((weights * value).sum(), z)
    (soft,) = torch.autograd.grad((weights * relaxed(distribution.layer, z, 0.5)).sum(), z)
    torch.testing.assert_close(ours, soft)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0.0, 30.0, 80.0])
def test_extreme_uniforms_and_logits_give_finite_numbers_and_gradients(dtype: torch.dtype, size: float) -> None:
    for make in (Bernoulli, lambda logits: Categorical(logits, classes=2)):
        logits = torch.tensor([-size, size], dtype=dtype, requires_grad=True)
        distribution = make(logits)
        for first in (0.0, 0.5, 1.0):
            for second in (0.0, 0.5, 1.0):
                uniforms = torch.tensor([first, second], dtype=dtype)
                z = perturbed(distribution, uniforms)
                h = hard(distribution.layer, z)
                again = conditionally_perturbed(distribution, h, uniforms.flip(-1))
                if isinstance(distribution, Bernoulli):
                    assert torch.equal(hard(distribution.layer, again), h)
                else:  # two uniforms of zero may tie
                    assert (again * h).sum() == again.max()
                point = log_space(distribution.layer, again, 0.1)
                total = relaxed_log_density(distribution, point, 0.1) + relaxed(distribution.layer, z, 0.1).sum()
                (gradient,) = torch.autograd.grad(total + again.sum() + entropy(distribution), logits)
                assert total.isfinite()
                assert gradient.isfinite().all()


def test_descendants_are_drawn_from_the_relaxed_ancestors() -> None:
    space = LatentSpace.of(Layer("bernoulli", 2), Layer("categorical", 1, classes=3))
    first = Bernoulli(torch.zeros(4, 2))
    seen: list[Tensor] = []

    def deeper(ancestors: Tensor) -> Categorical:
        seen.append(ancestors)
        return Categorical(ancestors.sum(-1, keepdim=True) * torch.arange(3.0), classes=3)

    posterior = LayeredPosterior(space, first, [deeper])
    layers = relaxed_draw(posterior, uniforms_for(posterior, 5), 0.5)
    assert [layer.value.shape for layer in layers] == [(5, 4, 2), (5, 4, 3)]
    assert torch.equal(seen[0], layers[0].value)


def test_refusals_name_alternatives() -> None:
    normal = Gaussian(torch.zeros(2), torch.zeros(2))
    with pytest.raises(UsageError, match="gaussian layer has no discrete states to relax: use vimco"):
        discrete(normal)
    with pytest.raises(UsageError, match=r"Concrete is for Bernoulli and categorical layers.*use vimco, rloo or jsa"):
        refuse_continuous(LatentSpace.of(Layer("bernoulli", 1), Layer("gaussian", 2)), "Concrete")
    for wrong in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(UsageError, match="the temperature of REBAR must be a positive number"):
            positive(wrong, "the temperature of REBAR")
