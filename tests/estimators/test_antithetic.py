"""ARM, DisARM, ARMS and ARSM: exact expectations, piece by piece of the noise, and what they promise besides."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise, permutations, product

import pytest
import torch
from torch import Tensor

from conformance.antithetic import FlatARM, OthersDescendants, SharedARM, WithoutTheProbability, WrongNoise
from gradient_checks import assert_biased, assert_unbiased, gradient_draws, largest_score, relative_error
from jsa import Batch, BeliefNetwork, LatentSpace, LatentVariableModel, Layer, LayeredPosterior
from jsa.distributions import Bernoulli, Categorical
from jsa.errors import NumericalError, UsageError
from jsa.estimators.antithetic import Antithetic, AntitheticPairs, Coupling, inside
from jsa.estimators.arm import ARM
from jsa.estimators.arms import ARMS, inverse_of_one_less_correlation
from jsa.estimators.arsm import ARSM
from jsa.estimators.disarm import DisARM
from significance import assert_frequencies, assert_mean
from small_models import (
    EXAMPLES,
    STYLE,
    Example,
    Gradients,
    categorical,
    conditional,
    enumerated,
    gradients,
    one_layer,
    randomise,
    repeated,
    torch_posterior,
    two_layers,
)
from targets import elbo_gradients

PAIRS = [ARM, DisARM]


def two_categorical_layers(seed: int = 5) -> Example:
    """A variable of three classes above two variables of three classes."""
    latent = LatentSpace.of(Layer("categorical", 2, classes=3), Layer("categorical", 1, classes=3))
    network = BeliefNetwork(Layer("bernoulli", 4), latent, (5,), prior="learned", style=STYLE)
    x = torch.tensor([[0, 1, 1, 0], [1, 1, 0, 1]], dtype=torch.float64)
    return Example(randomise(network, seed), Batch(x, torch.arange(2)))


def layers_of_bits(*sizes: int, seed: int = 7) -> Example:
    """So many bits in each layer."""
    latent = LatentSpace(tuple(Layer("bernoulli", size) for size in sizes))
    network = BeliefNetwork(Layer("bernoulli", 4), latent, (3,), prior="learned", style=STYLE)
    x = torch.tensor([[0, 1, 1, 0]], dtype=torch.float64)
    return Example(randomise(network, seed), Batch(x, torch.arange(1)))


def two_small_layers() -> Example:
    """Small enough for all combinations of pieces, of which a layer has more the more ancestors it may have."""
    return layers_of_bits(2, 1)


def three_small_layers() -> Example:
    """Likewise."""
    return layers_of_bits(1, 1, 1)


SUPPORTED: list[tuple[Callable[[], Antithetic], Callable[[], Example]]] = [
    *(
        (make, example)
        for make in (ARM, partial(ARM, particles=4), DisARM, ARMS, partial(ARMS, particles=4))
        for example in (one_layer, two_layers, conditional)
    ),
    (ARSM, categorical),
    (ARSM, two_categorical_layers),
]


def with_noise(estimator: Antithetic, noises: Iterable[Tensor]) -> Antithetic:
    """The estimator with the noise of its layers given, one after the other."""
    remaining = iter(noises)
    estimator.noise = lambda layer, batch, like: next(remaining).to(like.dtype)
    return estimator


def recorded_noise(estimator: Antithetic, example: Example) -> list[Tensor]:
    """Some noise for the layers of a model, as the estimator draws it."""
    like = torch.zeros((), dtype=torch.float64)
    return [estimator.noise(layer, len(example.batch), like) for layer in example.model.latent.layers]


def recorded_states(model: LatentVariableModel) -> list[tuple[Tensor, bool]]:
    """Filled with the states that the decoder is given from now on, and whether with a graph."""
    seen: list[tuple[Tensor, bool]] = []
    log_joint = model.log_joint

    def recording(batch: Batch, h: Tensor) -> Tensor:
        seen.append((h, torch.is_grad_enabled()))
        return log_joint(batch, h)

    model.log_joint = recording
    return seen


def largest_difference(found: Gradients, expected: Gradients) -> float:
    return max(float((found[name] - expected[name]).abs().max()) for name in expected)


# ----------------------------------------------------------------------------------------------------------------------
# Exact expectations: the states are constant, and ARM's factor is linear, in each box between the breakpoints
# ----------------------------------------------------------------------------------------------------------------------


def breakpoints(model: LatentVariableModel, batch: Batch, layer: int) -> Tensor:
    """For each bit of a layer, where its draw or its antithetic draw can change, whatever its ancestors."""
    posterior = model.posterior(batch)
    assert isinstance(posterior, LayeredPosterior)
    ancestors = torch.zeros(1, 1, 0, dtype=torch.float64)
    if layer > 0:
        above = LatentSpace(model.latent.layers[:layer]).enumerate(torch.float64)
        ancestors = above.unsqueeze(1)
    with torch.no_grad():
        probabilities = posterior.conditional(layer, ancestors).mean.reshape(-1, model.latent.layers[layer].variables)
    return torch.cat([probabilities, 1 - probabilities]).T


def boxes(model: LatentVariableModel, batch: Batch) -> Iterator[tuple[list[Tensor], float]]:
    """The midpoint and the volume of each box of the uniforms of a batch of one, by layer."""
    sides = []
    for layer in range(len(model.latent.layers)):
        for points in breakpoints(model, batch, layer):
            edges = [0.0, *sorted(points.tolist()), 1.0]
            sides.append([((left + right) / 2, right - left) for left, right in pairwise(edges) if right > left])
    sizes = [layer.variables for layer in model.latent.layers]
    for box in product(*sides):
        middle = torch.tensor([[[middle for middle, _ in box]]], dtype=torch.float64)
        volume = 1.0
        for _, length in box:
            volume *= length
        yield list(middle.split(sizes, dim=-1)), volume


def gradient_in_box(
    kind: type[AntitheticPairs], model: LatentVariableModel, batch: Batch, u: list[Tensor]
) -> Gradients:
    estimator = with_noise(kind(), (torch.stack([1 - uniforms, uniforms]) for uniforms in u))
    return gradients(model, estimator(model, batch).loss)


def rows(example: Example) -> list[Batch]:
    """The rows of an example, each as a batch of one."""
    return [example.batch.take(torch.tensor([row])) for row in range(len(example.batch))]


def expected_gradient(kind: type[AntitheticPairs], model: LatentVariableModel, batch: Batch) -> Gradients:
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
def test_expected_gradient_is_exact(kind: type[AntitheticPairs], make: Callable[[], Example]) -> None:
    # In all parameters, not the logits alone: the encoder before them and the decoder beside them included.
    example = make()
    for batch in rows(example):
        expected = elbo_gradients(example.model, batch)
        assert largest_difference(expected_gradient(kind, example.model, batch), expected) < 1e-12


@pytest.mark.parametrize(
    ("kind", "make"), [(SharedARM, two_small_layers), (FlatARM, two_small_layers), (WithoutTheProbability, one_layer)]
)
def test_expected_gradient_of_wrong_twins_is_not(kind: type[AntitheticPairs], make: Callable[[], Example]) -> None:
    example = make()
    batch, *_ = rows(example)
    expected = elbo_gradients(example.model, batch)
    assert largest_difference(expected_gradient(kind, example.model, batch), expected) > 1e-3


@pytest.mark.parametrize("kind", PAIRS)
def test_expected_logit_gradient_is_exact(kind: type[AntitheticPairs]) -> None:
    logits = torch.tensor([[-1.3, 0.4, 2.1]], dtype=torch.float64, requires_grad=True)
    table = torch.randn(8, dtype=torch.float64)
    space = LatentSpace.of(Layer("bernoulli", 3))
    states = space.enumerate(torch.float64)
    inference = Bernoulli(logits)
    log_inference = inference.log_prob(states.unsqueeze(1)).squeeze(1)
    (expected,) = torch.autograd.grad((log_inference.exp() * (table - log_inference)).sum(), logits)

    signal = table - log_inference.detach()
    place = torch.tensor([4.0, 2.0, 1.0], dtype=torch.float64)
    found = torch.zeros_like(expected)
    edges = [[0.0, *sorted((p, 1 - p)), 1.0] for p in inference.mean[0].tolist()]
    for box in product(*(list(pairwise(bit)) for bit in edges)):
        sides = torch.tensor(box, dtype=torch.float64)
        u = sides.mean(-1).reshape(1, 1, 3)
        noise = torch.stack([1 - u, u])
        drawn = inference.from_uniforms(noise)
        signals = signal[(drawn * place).sum(-1).long()]
        coupling = Coupling(logits.detach(), noise, drawn, torch.zeros_like(signals))
        found += (sides[:, 1] - sides[:, 0]).prod() * kind().logit_gradient(coupling, signals)[0]
    assert (found - expected).abs().max() < 1e-12


def test_disarm_is_the_expectation_of_arm_given_its_states() -> None:
    # Over a box in which the states are constant the mean of ARM's gradient is that at the midpoint.
    example = one_layer()
    batch, *_ = rows(example)
    for u, _ in boxes(example.model, batch):
        arm, disarm = (gradient_in_box(kind, example.model, batch, u) for kind in PAIRS)
        assert largest_difference(arm, disarm) < 1e-12


# ----------------------------------------------------------------------------------------------------------------------
# ARMS: the law of the copula, and its correction
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("particles", [2, 3, 4, 8])
def test_copula_has_uniform_margins_and_the_stated_pairs(particles: int) -> None:
    like = torch.zeros((), dtype=torch.float64)
    uniforms = ARMS(particles).noise(Layer("bernoulli", 1), 200_000, like).squeeze((1, -1))
    for number in (0, particles - 1):
        assert_frequencies((uniforms[number] * 20).long(), torch.full((20,), 0.05, dtype=torch.float64))
    for p in (0.1, 0.45, 0.9):
        ones = uniforms[[0, particles - 1]] < p
        both_zero = max(0.0, 2 * (1 - p) ** (1 / (particles - 1)) - 1) ** (particles - 1)
        assert_mean((~ones).all(0).double(), both_zero)


@pytest.mark.parametrize("particles", [2, 3, 4, 8])
def test_correction_is_that_of_the_correlation(particles: int) -> None:
    logits = torch.linspace(-6, 6, 101, dtype=torch.float64)
    p = logits.sigmoid()
    both_zero = (2 * (1 - p) ** (1 / (particles - 1)) - 1).clamp_min(0) ** (particles - 1)
    correlation = (2 * p - 1 + both_zero - p**2) / (p * (1 - p))
    found = inverse_of_one_less_correlation(logits, particles)
    assert (found - 1 / (1 - correlation)).abs().max() < 1e-10


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("particles", [2, 3, 8, 50])
def test_correction_tends_to_one_at_both_ends(particles: int, dtype: torch.dtype) -> None:
    far = torch.tensor([-1e4, -745.0, -300.0, -104.0, -88.0, -60.0, -20.0, 20.0, 60.0, 300.0, 1e4], dtype=dtype)
    found = inverse_of_one_less_correlation(far, particles)
    assert (found - 1).abs().max() < 1e-5
    everywhere = inverse_of_one_less_correlation(torch.linspace(-120, 120, 2001, dtype=dtype), particles)
    assert everywhere.min() > 0.5 - 1e-6
    assert everywhere.max() < 1 + 1e-5


@pytest.mark.parametrize("particles", [2, 3, 5])
def test_arms_is_exact_given_the_law_of_pairs(particles: int) -> None:
    # The estimator is linear in products of a signal and a bit of one draw or of two: its expectation needs no more
    # than the law of a pair, which is a product over the bits.
    logits = torch.tensor([-2.0, 0.3, 1.4], dtype=torch.float64, requires_grad=True)
    states = LatentSpace.of(Layer("bernoulli", 3)).enumerate(torch.float64)
    log_inference = Bernoulli(logits).log_prob(states)
    table = torch.randn(8, dtype=torch.float64)
    (expected,) = torch.autograd.grad((log_inference.exp() * (table - log_inference)).sum(), logits)

    p = logits.detach().sigmoid()
    both_zero = (2 * (1 - p) ** (1 / (particles - 1)) - 1).clamp_min(0) ** (particles - 1)
    one_zero = 1 - p - both_zero
    law = torch.stack([both_zero, one_zero, one_zero, 1 - both_zero - 2 * one_zero])
    first, second = states.long().unsqueeze(1), states.long().unsqueeze(0)
    pairs = law[2 * first + second, torch.arange(3)].prod(-1)
    signal = table - log_inference.detach()
    covariance = torch.einsum("s,st,sv->v", signal, pairs, states) - torch.einsum("s,st,tv->v", signal, pairs, states)
    found = covariance * inverse_of_one_less_correlation(logits.detach(), particles)
    assert (found - expected).abs().max() < 1e-12


@pytest.mark.parametrize("make", [one_layer, two_layers])
def test_arms_with_two_particles_is_disarm(make: Callable[[], Example]) -> None:
    example = make()
    noise = recorded_noise(DisARM(), example)
    found = [
        gradients(example.model, with_noise(kind(), noise)(example.model, example.batch).loss)
        for kind in (ARMS, DisARM)
    ]
    assert largest_difference(*found) < 1e-12


# ----------------------------------------------------------------------------------------------------------------------
# ARSM
# ----------------------------------------------------------------------------------------------------------------------


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
    posterior = example.model.posterior(batch)
    noise = ARSM().noise(example.model.latent.layers[0], len(batch), batch.x)
    states = ARSM().draw(posterior.first, noise)[branch, 0]
    numbers = (states.unflatten(-1, (2, 3)).argmax(-1) * torch.tensor([3, 1])).sum(-1)
    with torch.no_grad():
        exact = enumerated(example.model, example.batch)
    assert_frequencies(numbers, exact.inference[:, 0])


class SharedARSM(OthersDescendants, ARSM):
    pass


def test_arsm_is_unbiased_for_two_layers() -> None:
    example = two_categorical_layers()
    draws = gradient_draws(ARSM(), example.model, repeated(example.batch, 4_000), 40)
    expected = elbo_gradients(example.model, example.batch)
    sys.stdout.write(f"\n|z| {largest_score(draws, expected):.2f}  error {relative_error(draws, expected):.2%}\n")
    assert_unbiased(draws, expected)


def test_arsm_with_the_descendants_of_another_branch_is_not() -> None:
    example = two_categorical_layers()
    draws = gradient_draws(SharedARSM(), example.model, repeated(example.batch, 4_000), 40)
    assert_biased(draws, elbo_gradients(example.model, example.batch))


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


# ----------------------------------------------------------------------------------------------------------------------
# What all of them promise
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "example"), SUPPORTED)
def test_gradient_reaches_every_parameter(make: Callable[[], Antithetic], example: Callable[[], Example]) -> None:
    model, batch = (example().model, example().batch)
    batch.x.requires_grad_()
    estimator = make()
    estimate = estimator(model, batch)
    estimate.loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name
    assert list(estimator.parameters()) == []
    assert not estimate.objective.requires_grad
    assert not estimate.log_weights.requires_grad


@pytest.mark.parametrize(("make", "example"), SUPPORTED)
def test_decoder_learns_from_the_states_alone(make: Callable[[], Antithetic], example: Callable[[], Example]) -> None:
    # The decoder's gradient is that of the mean of log p at the states it saw; the encoder's part adds nothing.
    model, batch = (example().model, example().batch)
    seen = recorded_states(model)
    found = gradients(model, make()(model, batch).loss)
    (states,) = (h for h, with_graph in seen if with_graph)
    names = [name for name, _ in model.named_parameters() if not name.startswith("inference")]
    expected = torch.autograd.grad(
        -model.log_joint(batch, states).mean(), [model.get_parameter(name) for name in names]
    )
    for name, gradient in zip(names, expected, strict=True):
        assert (found[name] - gradient).abs().max() < 1e-12


@pytest.mark.parametrize(
    ("make", "example", "states", "calls"),
    [
        (ARM, one_layer, 2, 1),
        (ARM, two_layers, 3, 1),
        (partial(ARM, particles=6), one_layer, 6, 1),
        (partial(DisARM, particles=4), two_layers, 6, 1),
        (partial(ARMS, particles=5), one_layer, 5, 1),
        (partial(ARMS, particles=5), two_layers, 9, 1),
        (ARSM, categorical, 4, 2),
        (ARSM, two_categorical_layers, 7, 2),
    ],
)
def test_decoder_evaluations(
    make: Callable[[], Antithetic], example: Callable[[], Example], states: int, calls: int
) -> None:
    model, batch = (example().model, example().batch)
    evaluated = recorded_states(model)
    encoded: list[int] = []
    posterior = model.posterior

    def counting(batch: Batch) -> object:
        encoded.append(len(batch))
        return posterior(batch)

    model.posterior = counting
    estimate = make()(model, batch)
    assert sum(h[..., 0].numel() for h, _ in evaluated) == states * len(batch)
    assert len(evaluated) == calls
    assert encoded == [len(batch)]
    assert estimate.log_weights.shape == (states, len(batch))


@pytest.mark.parametrize(("make", "example"), SUPPORTED)
def test_log_weights_are_those_of_the_states(make: Callable[[], Antithetic], example: Callable[[], Example]) -> None:
    model, batch = (example().model, example().batch)
    seen = recorded_states(model)
    estimate = make()(model, batch)
    h = torch.cat([states for states, _ in seen])
    expected = model.log_joint(batch, h) - model.posterior(batch).log_prob(h)
    assert (estimate.log_weights - expected).abs().max() < 1e-12
    assert abs(estimate.objective - expected.mean()) < 1e-12


@pytest.mark.parametrize(("make", "example"), SUPPORTED)
def test_rows_are_averaged_and_never_summed(make: Callable[[], Antithetic], example: Callable[[], Example]) -> None:
    model, batch = (example().model, example().batch)
    noise = recorded_noise(make(), example())
    once = gradients(model, with_noise(make(), noise)(model, batch).loss)
    again = [torch.cat([values] * 3, dim=2) for values in noise]
    thrice = gradients(model, with_noise(make(), again)(model, repeated(batch, 3)).loss)
    assert largest_difference(once, thrice) < 1e-12


@pytest.mark.parametrize(("make", "example"), SUPPORTED)
def test_single_precision_agrees_with_double(make: Callable[[], Antithetic], example: Callable[[], Example]) -> None:
    double = example()
    noise = recorded_noise(make(), double)
    expected = gradients(double.model, with_noise(make(), noise)(double.model, double.batch).loss)
    model = example().model.float()
    context = None if double.batch.context is None else double.batch.context.float()
    batch = Batch(double.batch.x.float(), double.batch.index, context)
    found = gradients(model, with_noise(make(), noise)(model, batch).loss)
    for name, gradient in expected.items():
        assert found[name].dtype == torch.float32
        assert (found[name] - gradient).abs().max() < 1e-4 * gradient.abs().max().clamp_min(1)


@pytest.mark.parametrize(("make", "example"), SUPPORTED)
def test_batch_of_one(make: Callable[[], Antithetic], example: Callable[[], Example]) -> None:
    model, batch = (example().model, example().batch.take(torch.tensor([1])))
    estimate = make()(model, batch)
    assert estimate.loss.shape == ()
    assert estimate.log_weights.shape[1:] == (1,)
    assert all(gradient.isfinite().all() for gradient in gradients(model, estimate.loss).values())


@pytest.mark.parametrize(("make", "example"), SUPPORTED)
def test_state_can_be_saved_and_restored(make: Callable[[], Antithetic], example: Callable[[], Example]) -> None:
    first, second = make(), make()
    model, batch = (example().model, example().batch)
    first(model, batch)
    second.load_state_dict(first.state_dict())
    found = []
    for estimator in (first, second):
        torch.manual_seed(3)
        found.append(gradients(model, estimator(model, batch).loss))
    assert largest_difference(*found) == 0


@pytest.mark.parametrize("extreme", [-200.0, -30.0, 30.0, 200.0])
@pytest.mark.parametrize("make", [ARM, DisARM, partial(ARMS, particles=4)])
def test_certain_bits_are_certain(
    make: Callable[[], Antithetic], extreme: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Random numbers of exactly 0 do come up in single precision, once in 2^24.
    monkeypatch.setattr(torch, "rand", lambda size, **options: torch.zeros(size, **options))
    model = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("bernoulli", 3)))
    (conditional_of_data,) = model.inference
    with torch.no_grad():
        conditional_of_data.network.layers[0].bias.fill_(extreme)
        conditional_of_data.network.layers[0].weight.zero_()
    batch = Batch(torch.ones(50, 4), torch.arange(50))
    seen = recorded_states(model)
    loss = make()(model, batch).loss
    ((states, _),) = seen
    assert (states == float(extreme > 0)).all()
    loss.backward()
    for parameter in model.inference.parameters():
        assert parameter.grad is not None
        assert (parameter.grad == 0).all()


def test_impossible_classes_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.tensor([[0.0, -100.0, 40.0]])
    for constant in (0.0, 1 - 2.0**-24):
        monkeypatch.setattr(
            torch,
            "rand",
            lambda size, constant=constant, **options: torch.full(size, 0.5, **options).index_fill(
                -1, torch.tensor([1]), constant
            ),
        )
        noise = ARSM().noise(Layer("categorical", 1, classes=3), 1, logits)
        states = ARSM().draw(Categorical(logits, 3), noise)
        assert (states == torch.tensor([0.0, 0.0, 1.0])).all()


def test_uniforms_and_their_complements_stay_inside() -> None:
    for dtype in (torch.float32, torch.float64):
        uniforms = inside(torch.tensor([0.0, 0.5, 1.0], dtype=dtype))
        for values in (uniforms, 1 - uniforms):
            assert (values > 0).all()
            assert (values < 1).all()


# ----------------------------------------------------------------------------------------------------------------------
# Refusals
# ----------------------------------------------------------------------------------------------------------------------


def gaussian() -> Example:
    network = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("gaussian", 2)))
    return Example(network, Batch(torch.ones(2, 4), torch.arange(2)))


def mixed() -> Example:
    latent = LatentSpace.of(Layer("bernoulli", 2), Layer("categorical", 2, classes=3))
    return Example(BeliefNetwork(Layer("bernoulli", 4), latent), Batch(torch.ones(2, 4), torch.arange(2)))


@pytest.mark.parametrize("kind", [ARM, DisARM, ARMS])
@pytest.mark.parametrize(
    ("example", "latents"), [(categorical, "categorical"), (mixed, "categorical"), (gaussian, "gaussian")]
)
def test_bits_are_asked_for(kind: type[Antithetic], example: Callable[[], Example], latents: str) -> None:
    sentence = f"^{kind.__name__} is for bernoulli latents, not {latents} ones: use arsm .* vimco, rloo or jsa$"
    with pytest.raises(UsageError, match=sentence):
        kind()(example().model, example().batch)


@pytest.mark.parametrize(
    ("example", "latents"), [(one_layer, "bernoulli"), (mixed, "bernoulli"), (gaussian, "gaussian")]
)
def test_classes_are_asked_for(example: Callable[[], Example], latents: str) -> None:
    sentence = f"^ARSM is for categorical latents, not {latents} ones: use arm or disarm .* vimco, rloo or jsa$"
    with pytest.raises(UsageError, match=sentence):
        ARSM()(example().model, example().batch)


@pytest.mark.parametrize("kind", [ARM, DisARM, ARMS])
def test_posterior_without_logits_is_refused(kind: type[Antithetic]) -> None:
    example = torch_posterior()
    with pytest.raises(UsageError, match=r"LayeredPosterior, which a TorchPosterior is not: use vimco, rloo or jsa$"):
        kind()(example.model, example.batch)


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("particles", [-2, 0, 1, 3])
def test_pairs_need_an_even_number(kind: type[AntitheticPairs], particles: int) -> None:
    with pytest.raises(UsageError, match=f"even number of particles, at least 2, not {particles}$"):
        kind(particles)


def test_arms_needs_two_particles() -> None:
    with pytest.raises(UsageError, match="ARMS needs at least 2 particles, not 1"):
        ARMS(1)


@pytest.mark.parametrize("make", [ARM, DisARM, ARMS])
def test_signal_that_is_no_number_is_named(make: Callable[[], Antithetic]) -> None:
    example = one_layer()
    log_joint = example.model.log_joint

    def broken(batch: Batch, h: Tensor) -> Tensor:
        value = log_joint(batch, h)
        return torch.where(torch.arange(len(batch)) == 1, torch.nan, value)

    example.model.log_joint = broken
    with pytest.raises(NumericalError, match="log_joint is nan at row 1"):
        make()(example.model, example.batch)


def test_every_small_model_of_bits_or_classes_is_supported() -> None:
    supported = {example().model.latent for _, example in SUPPORTED}
    assert {make().model.latent for make in EXAMPLES.values()} <= supported
