"""Concrete, Gumbel-Softmax and straight-through: what they are biased by, and what they are exact in."""

from __future__ import annotations

import sys

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.conformance.relaxed import RELAXABLE
from helpers.gradient_checks import assert_biased, assert_unbiased, draws_of
from helpers.recorded_states import recorded_states
from helpers.significance import assert_mean
from helpers.small_models import (
    EXAMPLES,
    STYLE,
    Example,
    Gradients,
    Wrapped,
    bits,
    enumerated,
    gradients,
    logits_of,
    randomize,
)
from helpers.targets import elbo, elbo_gradients
from jsa import BeliefNetwork, LatentSpace, Layer
from jsa.estimators.concrete import Concrete
from jsa.estimators.gumbel_softmax import GumbelSoftmax
from jsa.estimators.straight_through import StraightThrough
from jsa.relaxation import LatentConditionals, discrete, relaxed_log_density
from jsa.testing.gradients import repeated


def part(values: Gradients, of_inference: bool) -> Gradients:
    """The gradients of phi, or those of theta."""
    return {name: value for name, value in values.items() if ("inference" in name) == of_inference}


def bias(draws: Gradients, exact: Gradients) -> float:
    """The norm of the mean deviation over the norm of the exact gradient."""
    off = torch.cat([(draws[name].mean(0) - gradient).flatten() for name, gradient in exact.items()])
    return float(off.norm() / torch.cat([gradient.flatten() for gradient in exact.values()]).norm())


@pytest.mark.parametrize("tells", [False, True], ids=["log_joint only", "tells its prior"])
@pytest.mark.parametrize("name", RELAXABLE)
def test_the_bias_of_gumbel_softmax_vanishes_with_the_temperature(name: str, tells: bool) -> None:
    example = EXAMPLES[name]()
    if not tells:  # as most models of users
        example = Example(Wrapped(example.model), example.batch)
    assert isinstance(example.model, LatentConditionals) == tells
    exact = elbo_gradients(example.model, example.batch)
    drawn = [draws_of(GumbelSoftmax(1, tau), example, copies=6_000, repetitions=20) for tau in (1.0, 0.3, 0.1)]
    for phi in (True, False):
        biases = [bias(draws, part(exact, phi)) for draws in drawn]
        shown = "  ".join(f"{value:.1%}" for value in biases)
        sys.stdout.write(f"\nGumbel-Softmax {name:12} {'phi' if phi else 'theta':5} at tau 1, 0.3, 0.1: {shown}\n")
        assert biases[0] > 0.1
        assert biases[0] > 2 * biases[1]
        assert biases[0] > 4 * biases[2]
        assert biases[2] < 0.05


@pytest.mark.parametrize("name", RELAXABLE)
def test_straight_through_is_exact_for_theta_and_biased_for_phi(name: str) -> None:
    example = EXAMPLES[name]()
    exact = elbo_gradients(example.model, example.batch)
    draws = draws_of(StraightThrough(1, 1.0), example, copies=4_000)
    sys.stdout.write(f"\nstraight-through {name:12} phi at tau 1: {bias(draws, part(exact, True)):.1%}\n")
    assert_unbiased(part(draws, False), part(exact, False))
    assert_biased(part(draws, True), part(exact, True))


@pytest.mark.parametrize("name", RELAXABLE)
def test_straight_through_gives_theta_the_gradient_of_log_p_at_its_states(name: str) -> None:
    example = EXAMPLES[name]()
    seen = recorded_states(example.model)
    got = part(gradients(example.model, StraightThrough(3, 0.7)(example.model, example.batch).loss), False)
    ((h, _),) = seen
    assert example.model.latent.contains(h)
    expected = -example.model.log_joint(example.batch, h).mean()
    for parameter_name, parameter in example.model.named_parameters():
        # The prior is averaged over the states of its layer, so that its gradient is not that at the states.
        if parameter_name in got and "prior" not in parameter_name:
            (gradient,) = torch.autograd.grad(expected, parameter, retain_graph=True)
            torch.testing.assert_close(got[parameter_name], gradient, rtol=1e-12, atol=1e-14)


def test_with_one_layer_the_divergence_is_analytic() -> None:
    """Where the model tells its prior, the part of the bound without the decoder does not depend on the draw."""
    example = EXAMPLES["one-layer"]()
    model, logits, law = example.network, logits_of(example.layers), torch.distributions
    prior = law.Bernoulli(logits=model.prior_parameters)
    divergence = law.kl_divergence(law.Bernoulli(logits=logits), prior).sum(-1)
    torch.manual_seed(3)
    estimate = GumbelSoftmax(2, 0.4)(model, example.batch)
    torch.manual_seed(3)
    u = torch.rand(2, 3, 3, dtype=torch.float64)
    y = ((logits + u.logit()) / 0.4).sigmoid()
    by_hand = model.observation(y).log_prob(example.batch.x).mean() - divergence.mean()
    torch.testing.assert_close(-estimate.loss, by_hand)
    ours, theirs = gradients(model, -estimate.loss), gradients(model, by_hand)
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, theirs[name])


def one_bit() -> Example:
    """A single bit, whose relaxed bound is an integral over a line."""
    latent = LatentSpace.of(Layer("bernoulli", 1))
    network = BeliefNetwork(Layer("bernoulli", 3), latent, (4,), prior="learned", style=STYLE)
    return Example(randomize(network, 7), bits(rows=3, width=3))


def relaxed_bound(example: Example, temperature: float, prior_temperature: float) -> Tensor:
    """The ELBO of the relaxed model by quadrature: no draw, no reparameterization."""
    s = torch.linspace(-120, 120, 24_001, dtype=torch.float64).reshape(-1, 1, 1)
    model, q, p = example.network, discrete(example.layers.first), discrete(example.network.prior)
    log_q = relaxed_log_density(q, s, temperature)
    log_p = relaxed_log_density(p, s, prior_temperature)
    reconstruction = model.observation(s.sigmoid()).log_prob(example.batch.x)
    return torch.trapezoid(log_q.exp() * (reconstruction + log_p - log_q), s.flatten(), dim=0).mean()


@pytest.mark.parametrize(("temperature", "prior_temperature"), [(0.5, None), (0.7, 0.4)])
def test_concrete_is_unbiased_for_the_bound_of_the_relaxed_model(
    temperature: float, prior_temperature: float | None
) -> None:
    example = one_bit()
    bound = relaxed_bound(example, temperature, prior_temperature or temperature)
    draws = draws_of(Concrete(2, temperature, prior_temperature), example, copies=8_000)
    assert_unbiased(draws, gradients(example.model, -bound))
    other = relaxed_bound(example, 1.3 * temperature, prior_temperature or temperature)
    assert_biased(draws, gradients(example.model, -other))


def limit_of_concrete(example: Example) -> Tensor:
    """The discrete reconstruction less the divergence between logistic variables, by enumeration and quadrature."""
    model, exact = example.network, enumerated(example.model, example.batch)
    q, p = logits_of(example.layers), model.prior_parameters
    h = exact.states.unsqueeze(1)
    reconstruction = (exact.log_inference.exp() * (exact.log_joint - model.prior.log_prob(h))).sum(0)
    e = torch.linspace(-60, 60, 12_001, dtype=torch.float64).reshape(-1, 1, 1)
    standard = e - 2 * F.softplus(e)
    shifted = (p - q + e) - 2 * F.softplus(p - q + e)
    divergence = torch.trapezoid(standard.exp() * (standard - shifted), e.flatten(), dim=0).sum(-1)
    return (reconstruction - divergence).mean()


def test_concrete_tends_to_the_divergence_of_logistic_variables_and_not_to_the_elbo() -> None:
    example = EXAMPLES["one-layer"]()
    elbo = elbo_gradients(example.model, example.batch)
    limit = gradients(example.model, -limit_of_concrete(example))
    drawn = {tau: draws_of(Concrete(1, tau), example, 4_000, 20) for tau in (1.0, 0.3, 0.1)}
    to_limit = [bias(draws, limit) for draws in drawn.values()]
    to_elbo = [bias(draws, elbo) for draws in drawn.values()]
    for name, values in (("ELBO", to_elbo), ("its limit", to_limit)):
        shown = "  ".join(f"{value:.1%}" for value in values)
        sys.stdout.write(f"\nConcrete one-layer against {name} at tau 1, 0.3, 0.1: {shown}\n")
    assert to_limit[0] > 2 * to_limit[1] > 4 * to_limit[2]
    assert to_limit[2] < 0.05
    assert to_elbo[2] > 0.1


@pytest.mark.parametrize("name", RELAXABLE)
def test_concrete_bounds_the_likelihood_of_the_relaxed_model(name: str) -> None:
    """The weights of the relaxed states have the mean p(x), the same one with every inference model."""
    example = EXAMPLES[name]()
    batch = repeated(example.batch, 30_000)
    means = []
    for factor in (1.0, 0.6):
        with torch.no_grad():
            for name, parameter in example.model.named_parameters():
                parameter.mul_(factor if "inference" in name else 1)
            weights = Concrete(1, 1.0)(example.model, batch).log_weights.reshape(-1, 3).exp()
        means.append((weights.mean(0), weights.std(0) / len(weights) ** 0.5))
    (first, first_error), (second, second_error) = means
    assert ((first - second).abs() < 6 * (first_error.square() + second_error.square()).sqrt()).all()
    assert (first_error < 0.2 * first).all()


def test_the_value_of_straight_through_is_an_estimate_of_the_elbo() -> None:
    example = EXAMPLES["two-layers"]()
    batch = repeated(example.batch, 5_000)
    with torch.no_grad():
        estimates = [StraightThrough(1, 0.5)(example.model, batch) for _ in range(20)]
        exact = elbo(example.model, example.batch)
    assert_mean(torch.stack([estimate.objective for estimate in estimates]), exact)
    assert_mean(torch.stack([estimate.log_weights.mean() for estimate in estimates]), exact)
