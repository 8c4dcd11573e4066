"""Factorized distributions: normalized, drawn by their law, as torch and scipy have them; and the summed softplus."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor

from helpers.significance import assert_frequencies, assert_mean
from jsa import Bernoulli, Categorical, Factorized, Gaussian, LatentSpace, Layer, distributions
from jsa.distributions import factorized, softplus_sum, validating_values
from jsa.errors import UsageError

LOGITS = torch.tensor([[0.3, -1.2, 2.0, 0.0, 0.7, -0.4], [-2.0, 0.1, 0.5, 1.5, -0.6, 0.9]], dtype=torch.float64)

DISCRETE: dict[str, Callable[[Tensor], Factorized]] = {
    "bernoulli": Bernoulli,
    "categorical": lambda logits: Categorical(logits, classes=3),
}
ALL: dict[str, Callable[[Tensor], Factorized]] = DISCRETE | {
    "gaussian": lambda logits: Gaussian(logits, 0.5 * logits.flip(-1)),
}

BELOW_ONE = {torch.float32: 1 - 2.0**-24, torch.float64: 1 - 2.0**-53}


def every_state(distribution: Factorized) -> Tensor:
    """All states, one a row, with a dimension for the batch."""
    return LatentSpace.of(distribution.layer).enumerate(torch.float64).unsqueeze(1)


@pytest.mark.parametrize("kind", DISCRETE)
def test_probabilities_sum_to_one_and_the_mean_is_the_expected_vector(kind: str) -> None:
    distribution = DISCRETE[kind](LOGITS)
    states = every_state(distribution)
    probabilities = distribution.log_prob(states).exp().unsqueeze(-1)
    assert (probabilities.sum(0) - 1).abs().max() < 1e-12
    assert torch.allclose(distribution.mean, (probabilities * states).sum(0), atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", DISCRETE)
def test_draws_have_the_probabilities(kind: str) -> None:
    distribution = DISCRETE[kind](LOGITS)
    states = every_state(distribution)
    draws = distribution.sample((50_000,))
    numbers = (draws.unsqueeze(-2) == states.squeeze(1)).all(-1).long().argmax(-1)
    probabilities = distribution.log_prob(states).exp()
    for row in range(2):
        assert_frequencies(numbers[:, row], probabilities[:, row])


def test_gaussian_draws_have_the_moments_and_the_law() -> None:
    mean, log_scale = torch.tensor([1.0, -2.0]), torch.tensor([0.3, -1.0])
    draws = Gaussian(mean.double(), log_scale.double()).sample((100_000,))
    standard = (draws - mean) / log_scale.double().exp()
    assert_mean(standard, 0.0)
    assert_mean(standard.square(), 1.0)
    for variable in range(2):
        assert stats.kstest(standard[:, variable].numpy(), "norm").pvalue > 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("edge", ["zero", "just below one"])
def test_the_ends_of_the_uniforms_give_proper_states(kind: str, edge: str, dtype: torch.dtype) -> None:
    distribution = ALL[kind](LOGITS.to(dtype))
    uniform = 0.0 if edge == "zero" else BELOW_ONE[dtype]
    h = distribution.from_uniforms(torch.full((2, distribution.layer.variables), uniform, dtype=dtype))
    assert h.shape == (2, distribution.layer.width)
    assert distribution.log_prob(h).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniforms_order_the_classes(dtype: torch.dtype) -> None:
    dice = Categorical(torch.zeros(3, dtype=dtype), classes=3)
    uniforms = torch.tensor([[0.0], [0.33], [0.34], [0.66], [0.67], [BELOW_ONE[dtype]]], dtype=dtype)
    assert dice.from_uniforms(uniforms).argmax(-1).tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("uniform", [0.0, BELOW_ONE[torch.float32]])
@pytest.mark.parametrize("classes", [2, 3, 10, 20])
def test_a_class_of_vanishing_probability_is_not_drawn(classes: int, uniform: float) -> None:
    # Such a draw has an astronomic importance weight: its chain would never move again. Rounding must not make it,
    # however many classes are summed up and whichever class it is.
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(5_000, classes, generator=generator)
    for absent in (0, classes // 2, classes - 1):
        logits_without = logits.clone()
        logits_without[:, absent] = -200.0
        drawn = Categorical(logits_without, classes).from_uniforms(torch.full((5_000, 1), uniform))
        assert drawn[:, absent].sum() == 0


def test_an_event_that_uniforms_cannot_tell_from_zero_is_not_drawn() -> None:
    """A uniform of exactly zero comes once in 2^24, a bit of this logit once in 2^29."""
    assert Bernoulli(torch.tensor([-20.0])).from_uniforms(torch.zeros(1)).item() == 0
    assert Categorical(torch.tensor([-20.0, 0.0]), classes=2).from_uniforms(torch.zeros(1)).tolist() == [0, 1]
    assert Bernoulli(torch.tensor([-16.0])).from_uniforms(torch.zeros(1)).item() == 1


@pytest.mark.parametrize(("logit", "bit"), [(-200.0, 0.0), (200.0, 1.0)])
@pytest.mark.parametrize("uniform", [0.0, BELOW_ONE[torch.float32]])
def test_a_certain_bit_is_certain(logit: float, bit: float, uniform: float) -> None:
    drawn = Bernoulli(torch.tensor([logit])).from_uniforms(torch.tensor([uniform]))
    assert drawn.item() == bit


@pytest.mark.parametrize("kind", ALL)
def test_taking_rows_is_indexing(kind: str) -> None:
    distribution = ALL[kind](LOGITS)
    rows = torch.tensor([1, 0, 1])
    taken = distribution.take(rows)
    uniforms = torch.rand(4, 2, distribution.layer.variables, dtype=torch.float64)
    h = distribution.from_uniforms(uniforms)
    assert taken.layer == distribution.layer
    assert taken.batch_shape == (3,)
    assert torch.equal(taken.from_uniforms(uniforms[:, rows]), h[:, rows])
    assert torch.equal(taken.log_prob(h[:, rows]), distribution.log_prob(h)[:, rows])


@pytest.mark.parametrize("kind", ALL)
def test_draws_carry_no_gradient_and_probabilities_do(kind: str) -> None:
    logits = LOGITS.clone().requires_grad_()
    distribution = ALL[kind](logits)
    h = distribution.sample((3,))
    assert not h.requires_grad
    (gradient,) = torch.autograd.grad(distribution.log_prob(h).sum(), logits)
    assert (gradient != 0).any(-1).all()


def test_torch_gives_the_same_log_probabilities() -> None:
    law = torch.distributions
    bits = Bernoulli(LOGITS).sample((7,))
    assert torch.allclose(Bernoulli(LOGITS).log_prob(bits), law.Bernoulli(logits=LOGITS).log_prob(bits).sum(-1))
    dice = Categorical(LOGITS, classes=3)
    faces = dice.sample((7,))
    by_variable = law.OneHotCategorical(logits=LOGITS.unflatten(-1, (2, 3)))
    assert torch.allclose(dice.log_prob(faces), by_variable.log_prob(faces.unflatten(-1, (2, 3))).sum(-1))


def test_scipy_gives_the_same_gaussian_density() -> None:
    log_scale = 0.5 * LOGITS.flip(-1)
    gaussian = Gaussian(LOGITS, log_scale)
    h = gaussian.sample((7,))
    expected = stats.norm.logpdf(h.numpy(), LOGITS.numpy(), np.exp(log_scale.numpy())).sum(-1)
    assert torch.allclose(gaussian.log_prob(h), torch.from_numpy(expected))


def test_large_logits_do_not_overflow() -> None:
    logits = torch.tensor([[200.0, -200.0]])
    assert Bernoulli(logits).log_prob(torch.tensor([[1.0, 0.0]])).item() == 0.0
    assert Bernoulli(logits).log_prob(torch.tensor([[0.0, 0.0]])).item() == -200.0
    assert Categorical(logits, classes=2).log_prob(torch.tensor([[0.0, 1.0]])).item() == -400.0


def test_zero_parameters_are_the_fixed_priors() -> None:
    layers = (Layer("bernoulli", 2), Layer("categorical", 2, classes=4), Layer("gaussian", 2))
    coins, dice, normal = (factorized(layer, torch.zeros(layer.parameters)) for layer in layers)
    assert torch.allclose(coins.mean, torch.full((2,), 0.5))
    assert torch.allclose(dice.mean, torch.full((8,), 0.25))
    assert normal.log_prob(torch.zeros(2)).item() == pytest.approx(-np.log(2 * np.pi))


@pytest.mark.parametrize("layer", [Layer("bernoulli", 3), Layer("categorical", 2, 4), Layer("gaussian", 5)])
def test_a_layer_gets_a_distribution_of_its_own_make(layer: Layer) -> None:
    distribution = factorized(layer, torch.randn(7, layer.parameters))
    assert distribution.layer == layer
    assert distribution.batch_shape == (7,)
    assert distribution.sample((2,)).shape == (2, 7, layer.width)


def test_saturated_bits_have_the_same_probabilities_and_slopes() -> None:
    # Logits of exactly zero, as an output layer that begins with zeros gives them, are no corner.
    logits = torch.tensor([[0.0, -0.0, 3.0, -3.0, 25.0, -25.0, 0.3, 45.0]], dtype=torch.float64)
    h = torch.tensor([[1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.2, 0.0]]).double()
    values, slopes = [], []
    for saturated in (False, True):
        parameter = logits.clone().requires_grad_()
        value = Bernoulli(parameter, saturated=saturated).log_prob(h)
        values.append(value.detach())
        slopes.append(torch.autograd.grad(value.sum(), parameter)[0])
    assert torch.allclose(values[0], values[1], atol=1e-10, rtol=0)
    assert torch.allclose(slopes[0], slopes[1], atol=1e-10, rtol=0)


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


@pytest.fixture
def products_at_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributions, "WORTHWHILE", 0)


def softplus_reference(logits: Tensor) -> Tensor:
    return F.softplus(logits.double()).sum(-1)


@pytest.mark.usefixtures("products_at_any_size")
@pytest.mark.parametrize("width", [1, 2, 3, 49, 50, 200, 392, 784])
def test_the_summed_softplus_is_the_sum(width: int) -> None:
    torch.manual_seed(width)
    logits = 4 * torch.randn(3, 5, width)
    expected = softplus_reference(logits)
    assert torch.allclose(softplus_sum(logits).double(), expected, rtol=2e-6, atol=2e-6)
    assert torch.allclose(softplus_sum(logits.double()), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.usefixtures("products_at_any_size")
def test_both_ways_of_the_summed_softplus_agree_where_one_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(7, 784)
    products = softplus_sum(logits)
    monkeypatch.setattr(distributions, "WORTHWHILE", 10**9)
    assert torch.allclose(products, softplus_sum(logits), rtol=1e-6)


@pytest.mark.usefixtures("products_at_any_size")
@pytest.mark.parametrize("value", [0.0, 1e-30, -1e-30, 17.0, -17.0, 88.0, -88.0, 1e4, -1e4, 3e38, -3e38])
def test_extreme_logits_neither_overflow_nor_underflow(value: float) -> None:
    logits = torch.full((2, 16), value / 16 if abs(value) > 1e37 else value)
    assert torch.allclose(softplus_sum(logits).double(), softplus_reference(logits), rtol=1e-6, atol=1e-6)
    logits.requires_grad_()
    (slope,) = torch.autograd.grad(softplus_sum(logits).sum(), logits)
    assert torch.allclose(slope, logits.sigmoid())


@pytest.mark.usefixtures("products_at_any_size")
def test_derivatives_of_the_summed_softplus_of_both_orders() -> None:
    torch.manual_seed(3)
    logits = torch.randn(2, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(softplus_sum, (logits,))
    assert torch.autograd.gradgradcheck(softplus_sum, (logits,))


@pytest.mark.usefixtures("products_at_any_size")
def test_the_summed_softplus_can_be_mapped_over_a_dimension_and_leaves_the_logits_as_they_are() -> None:
    logits = torch.randn(4, 3, 8)
    before = logits.clone()
    mapped = torch.func.vmap(torch.func.grad(lambda row: softplus_sum(row).sum()))(logits)
    assert torch.allclose(mapped, logits.sigmoid())
    softplus_sum(logits)
    assert torch.equal(logits, before)
