"""The relaxed methods: what they are biased by, what they are exact in, and what gets which gradient."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from conformance.relaxed import randomised_networks
from exact_expectations import FixedDraws, expected_gradients, largest_difference
from gradient_checks import assert_biased, assert_unbiased, gradient_draws, relative_error
from jsa import Batch, BeliefNetwork, LatentSpace, LatentVariableModel, Layer
from jsa.errors import UsageError
from jsa.estimators import Estimator
from jsa.estimators.concrete import Concrete
from jsa.estimators.gumbel_softmax import GumbelSoftmax
from jsa.estimators.muprop import MuProp
from jsa.estimators.rebar import Rebar
from jsa.estimators.relax import Relax
from jsa.estimators.straight_through import StraightThrough
from jsa.relaxation import relaxed_log_density
from significance import assert_mean
from small_models import EXAMPLES, STYLE, Example, Gradients, bits, enumerated, gradients, randomise, repeated
from targets import elbo, elbo_gradients

Kind = TypeVar("Kind")

RELAXABLE = ("one-layer", "two-layers", "categorical", "conditional")


UNBIASED = pytest.mark.parametrize("kind", [Rebar, Relax, MuProp])
CONTROLLED = pytest.mark.parametrize("kind", [Rebar, Relax])
NAMES = pytest.mark.parametrize("name", [*RELAXABLE, "mixed layers"])


def mixed_layers() -> Example:
    """A categorical variable above two bits."""
    latent = LatentSpace.of(Layer("bernoulli", 2), Layer("categorical", 1, classes=3))
    network = BeliefNetwork(Layer("bernoulli", 4), latent, (5,), prior="learned", style=STYLE)
    return Example(randomise(network, 53), bits(rows=3, width=4))


def small(name: str) -> Example:
    return mixed_layers() if name == "mixed layers" else EXAMPLES[name]()


def made(kind: type[Estimator], example: Example, **options: object) -> Estimator:
    """The estimator in double precision, its networks not zero."""
    given: dict[str, object] = dict(options)
    if kind is not MuProp:
        given["latent"] = example.model.latent
    if kind is Relax:
        context = 0 if example.batch.context is None else example.batch.context.shape[1]
        given |= {"inputs": example.batch.x.shape[1] + context, "hidden": 4}
    estimator = kind(**given).double()
    return randomised_networks(estimator) if isinstance(estimator, Relax) else estimator


def draws_of(estimator: Estimator, example: Example, copies: int = 2_000, repetitions: int = 40) -> Gradients:
    return gradient_draws(estimator, example.model, repeated(example.batch, copies), repetitions)


def part(values: Gradients, of_inference: bool) -> Gradients:
    """The gradients of phi, or those of theta."""
    return {name: value for name, value in values.items() if name.startswith("inference") == of_inference}


def bias(draws: Gradients, exact: Gradients) -> float:
    """The norm of the mean deviation over the norm of the exact gradient."""
    off = torch.cat([(draws[name].mean(0) - gradient).flatten() for name, gradient in exact.items()])
    return float(off.norm() / torch.cat([gradient.flatten() for gradient in exact.values()]).norm())


@pytest.mark.parametrize("tells", [False, True], ids=["log_joint only", "tells its prior"])
@pytest.mark.parametrize("name", RELAXABLE)
def test_the_bias_of_gumbel_softmax_vanishes_with_the_temperature(name: str, tells: bool) -> None:
    example = small(name) if tells else EXAMPLES[name]()
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
def test_straight_through_gives_theta_the_gradient_of_log_p_at_its_states(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = EXAMPLES[name]()
    seen: list[Tensor] = []
    real = type(example.model).log_joint

    def recorded(self: LatentVariableModel, batch: Batch, h: Tensor) -> Tensor:
        seen.append(h.detach())
        return real(self, batch, h)

    monkeypatch.setattr(type(example.model), "log_joint", recorded)
    got = part(gradients(example.model, StraightThrough(3, 0.7)(example.model, example.batch).loss), False)
    (h,) = seen
    states = example.model.latent.enumerate(torch.float64)
    assert (h.unsqueeze(-2) == states).all(-1).any(-1).all()
    expected = -real(example.model, example.batch, h).mean()
    for parameter_name, parameter in example.model.named_parameters():
        # The prior is averaged over the states of its layer, so that its gradient is not that at the states.
        if parameter_name in got and "prior" not in parameter_name:
            (gradient,) = torch.autograd.grad(expected, parameter, retain_graph=True)
            torch.testing.assert_close(got[parameter_name], gradient, rtol=1e-12, atol=1e-14)


def test_with_one_layer_the_divergence_is_analytic() -> None:
    """Where the model tells its prior, the part of the bound without the decoder does not depend on the draw."""
    example = small("one-layer")
    model = example.model
    assert isinstance(model, BeliefNetwork)
    posterior = model.posterior(example.batch)
    divergence = torch.distributions.kl_divergence(
        torch.distributions.Bernoulli(logits=posterior.first.logits),
        torch.distributions.Bernoulli(logits=model.prior_parameters),
    ).sum(-1)
    torch.manual_seed(3)
    estimate = GumbelSoftmax(2, 0.4)(model, example.batch)
    torch.manual_seed(3)
    u = torch.rand(2, 3, 3, dtype=torch.float64)
    y = ((posterior.first.logits + u.logit()) / 0.4).sigmoid()
    by_hand = model.observation(y).log_prob(example.batch.x).mean() - divergence.mean()
    torch.testing.assert_close(-estimate.loss, by_hand)
    ours, theirs = gradients(model, -estimate.loss), gradients(model, by_hand)
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, theirs[name])


def one_bit() -> Example:
    """A single bit, whose relaxed bound is an integral over a line."""
    latent = LatentSpace.of(Layer("bernoulli", 1))
    network = BeliefNetwork(Layer("bernoulli", 3), latent, (4,), prior="learned", style=STYLE)
    return Example(randomise(network, 7), bits(rows=3, width=3))


def relaxed_bound(model: BeliefNetwork, batch: Batch, temperature: float, prior_temperature: float) -> Tensor:
    """The ELBO of the relaxed model by quadrature: no draw, no reparameterisation."""
    s = torch.linspace(-120, 120, 24_001, dtype=torch.float64).reshape(-1, 1, 1)
    q, p = model.posterior(batch).first, model.prior
    log_q = relaxed_log_density(q, s, temperature)
    log_p = relaxed_log_density(p, s, prior_temperature)
    reconstruction = model.observation(s.sigmoid()).log_prob(batch.x)
    return torch.trapezoid(log_q.exp() * (reconstruction + log_p - log_q), s.flatten(), dim=0).mean()


@pytest.mark.parametrize(("temperature", "prior_temperature"), [(0.5, None), (0.7, 0.4)])
def test_concrete_is_unbiased_for_the_bound_of_the_relaxed_model(
    temperature: float, prior_temperature: float | None
) -> None:
    example = one_bit()
    assert isinstance(example.model, BeliefNetwork)
    bound = relaxed_bound(example.model, example.batch, temperature, prior_temperature or temperature)
    draws = draws_of(Concrete(2, temperature, prior_temperature), example, copies=8_000)
    assert_unbiased(draws, gradients(example.model, -bound))
    other = relaxed_bound(example.model, example.batch, 1.3 * temperature, prior_temperature or temperature)
    assert_biased(draws, gradients(example.model, -other))


def limit_of_concrete(model: LatentVariableModel, batch: Batch) -> Tensor:
    """The discrete reconstruction less the divergence between logistic variables, by enumeration and quadrature."""
    assert isinstance(model, BeliefNetwork)
    exact = enumerated(model, batch)
    q, p = model.posterior(batch).first.logits, model.prior_parameters
    h = exact.states.unsqueeze(1)
    reconstruction = (exact.log_inference.exp() * (exact.log_joint - model.prior.log_prob(h))).sum(0)
    e = torch.linspace(-60, 60, 12_001, dtype=torch.float64).reshape(-1, 1, 1)
    standard = e - 2 * F.softplus(e)
    shifted = (p - q + e) - 2 * F.softplus(p - q + e)
    divergence = torch.trapezoid(standard.exp() * (standard - shifted), e.flatten(), dim=0).sum(-1)
    return (reconstruction - divergence).mean()


def test_concrete_tends_to_the_divergence_of_logistic_variables_and_not_to_the_elbo() -> None:
    example = small("one-layer")
    elbo = elbo_gradients(example.model, example.batch)
    limit = gradients(example.model, -limit_of_concrete(example.model, example.batch))
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
    example = small(name)
    batch = repeated(example.batch, 30_000)
    means = []
    for factor in (1.0, 0.6):
        with torch.no_grad():
            for parameter in example.model.inference.parameters():
                parameter.mul_(factor)
            weights = Concrete(1, 1.0)(example.model, batch).log_weights.reshape(-1, 3).exp()
        means.append((weights.mean(0), weights.std(0) / len(weights) ** 0.5))
    (first, first_error), (second, second_error) = means
    assert ((first - second).abs() < 6 * (first_error.square() + second_error.square()).sqrt()).all()
    assert (first_error < 0.2 * first).all()


@pytest.mark.parametrize("name", RELAXABLE)
@pytest.mark.parametrize("kind", [Concrete, GumbelSoftmax, StraightThrough])
def test_gradients_reach_every_parameter(kind: Callable[..., Estimator], name: str) -> None:
    example = small(name)
    estimate = kind(particles=2, temperature=0.5)(example.model, example.batch)
    assert estimate.log_weights.shape == (2, 3)
    assert not estimate.objective.requires_grad
    assert not estimate.log_weights.requires_grad
    for gradient in gradients(example.model, estimate.loss).values():
        assert gradient.isfinite().all()
        assert gradient.norm() > 0


def test_the_value_of_straight_through_is_an_estimate_of_the_elbo() -> None:
    example = EXAMPLES["two-layers"]()
    batch = repeated(example.batch, 5_000)
    with torch.no_grad():
        estimates = [StraightThrough(1, 0.5)(example.model, batch) for _ in range(20)]
        exact = elbo(example.model, example.batch)
    assert_mean(torch.stack([estimate.objective for estimate in estimates]), exact)
    assert_mean(torch.stack([estimate.log_weights.mean() for estimate in estimates]), exact)


BIASED = {"Concrete": Concrete, "Gumbel-Softmax": GumbelSoftmax, "straight-through": StraightThrough}


@pytest.mark.parametrize("kind", BIASED.values(), ids=BIASED)
def test_refusals_of_the_biased_methods(kind: Callable[..., Estimator]) -> None:
    with pytest.raises(UsageError, match="at least 1 particle, not 0"):
        kind(particles=0)
    with pytest.raises(UsageError, match="positive number"):
        kind(temperature=0.0)
    refuses_what_it_cannot_take(kind())


@pytest.mark.parametrize("kind", [Rebar, Relax, MuProp])
def test_refusals_of_the_unbiased_methods(kind: type[Estimator]) -> None:
    example = EXAMPLES["one-layer"]()
    estimator = made(kind, example)
    with pytest.raises(UsageError, match="at least 1 particle, not 0"):
        made(kind, example, particles=0)
    refuses_what_it_cannot_take(estimator)
    if kind is not MuProp:
        normal = LatentSpace.of(Layer("gaussian", 2))
        with pytest.raises(UsageError, match="gaussian one: use vimco"):
            made(kind, Example(BeliefNetwork(Layer("bernoulli", 4), normal), example.batch))
        with pytest.raises(UsageError, match=r"scale of .* is a positive number"):
            made(kind, example, scale=-1.0)
        with pytest.raises(UsageError, match=r"temperature of .* is a positive number"):
            made(kind, example, temperature=0.0)


def refuses_what_it_cannot_take(estimator: Estimator) -> None:
    example = EXAMPLES["torch-posterior"]()
    with pytest.raises(UsageError, match=r"'relaxable' is False.*use vimco, rloo or jsa"):
        estimator(example.model, example.batch)
    example.model.relaxable = True
    with pytest.raises(UsageError, match="TorchPosterior does not: use vimco, rloo or jsa"):
        estimator(example.model, example.batch)
    normal = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("gaussian", 3))).double()
    with pytest.raises(UsageError, match="gaussian one: use vimco, rloo or jsa"):
        estimator(normal, example.batch)


def test_concrete_refuses_a_model_that_does_not_tell_its_prior() -> None:
    class Silent(BeliefNetwork):
        latent_conditionals = None

    network = Silent(Layer("bernoulli", 4), LatentSpace.of(Layer("bernoulli", 3)))
    with pytest.raises(UsageError, match="no method 'latent_conditionals': use vimco"):
        Concrete()(network, Batch(torch.zeros(2, 4), torch.arange(2)))


def test_rebar_is_unbiased_with_layers_of_two_kinds_and_two_particles() -> None:
    example = mixed_layers()
    exact = elbo_gradients(example.model, example.batch)
    estimator = made(Rebar, example, particles=2, temperature=0.8).requires_grad_(False)
    draws = draws_of(estimator, example, copies=1_000)
    sys.stdout.write(f"\nREBAR mixed layers: standard error {relative_error(draws, exact):.2%}\n")
    assert_unbiased(draws, exact)


@NAMES
def test_the_expectation_of_muprop_is_exact(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its only noise is the draw from q: a finite sum."""
    monkeypatch.setattr(FixedDraws, "relaxable", True)
    example = small(name)
    found = expected_gradients(lambda model, batch: MuProp(), example.model, example.batch, 1)
    assert largest_difference(found, elbo_gradients(example.model, example.batch)) < 1e-12


def test_particles_of_muprop_are_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FixedDraws, "relaxable", True)
    example = EXAMPLES["one-layer"]()
    found = expected_gradients(lambda model, batch: MuProp(particles=2), example.model, example.batch, 2)
    assert largest_difference(found, elbo_gradients(example.model, example.batch)) < 1e-12


def squared_norm(estimator: Estimator, example: Example, seed: int) -> Tensor:
    torch.manual_seed(seed)
    return estimator(example.model, example.batch).diagnostics["logit_gradient_norm"].square()


@CONTROLLED
@NAMES
def test_the_control_variate_descends_the_squared_norm(kind: type[Estimator], name: str) -> None:
    """By finite differences with the same noise, in every parameter of the estimator."""
    example = small(name)
    estimator = made(kind, example, particles=2, temperature=0.7, scale=0.8)
    torch.manual_seed(1)
    loss = estimator(example.model, example.batch).loss
    parameters = list(estimator.parameters())
    found = torch.autograd.grad(loss, parameters)
    step = 1e-5
    for parameter, gradient in zip(parameters, found, strict=True):
        for place in range(parameter.numel()):
            values = []
            for sign in (1, -1):
                with torch.no_grad():
                    parameter.view(-1)[place] += sign * step
                values.append(squared_norm(estimator, example, seed=1))
                with torch.no_grad():
                    parameter.view(-1)[place] -= sign * step
            expected = (values[0] - values[1]) / (2 * step)
            torch.testing.assert_close(gradient.view(-1)[place], expected, rtol=1e-5, atol=1e-6)
    assert all(gradient.norm() > 0 for gradient in found)


@CONTROLLED
def test_the_squared_norm_is_that_of_the_gradient_that_phi_gets(
    kind: type[Estimator], monkeypatch: pytest.MonkeyPatch
) -> None:
    example = EXAMPLES["one-layer"]()
    assert isinstance(example.model, BeliefNetwork)
    posterior = example.model.posterior(example.batch)
    monkeypatch.setattr(example.model, "posterior", lambda batch: posterior)
    estimate = made(kind, example)(example.model, example.batch)
    (gradient,) = torch.autograd.grad(estimate.loss, posterior.first.logits)
    rows = len(example.batch)
    torch.testing.assert_close(
        rows * gradient.square().sum(), estimate.diagnostics["logit_gradient_norm"].square(), rtol=1e-10, atol=0
    )


@CONTROLLED
@NAMES
def test_learning_the_control_variate_gives_theta_and_phi_nothing(kind: type[Estimator], name: str) -> None:
    example = small(name)
    estimator = made(kind, example, particles=2)
    found = []
    for learns in (True, False):
        estimator.requires_grad_(learns)
        torch.manual_seed(2)
        found.append(gradients(example.model, estimator(example.model, example.batch).loss))
    for parameter, gradient in found[0].items():
        torch.testing.assert_close(gradient, found[1][parameter], rtol=1e-12, atol=1e-14)


@UNBIASED
@NAMES
def test_theta_gets_the_gradient_of_log_p_at_the_states_alone(
    kind: type[Estimator], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = small(name)
    real, seen = example.model.log_joint, []

    def recorded(batch: Batch, h: Tensor) -> Tensor:
        seen.append(h.detach())
        return real(batch, h)

    monkeypatch.setattr(example.model, "log_joint", recorded)
    loss = made(kind, example, particles=2)(example.model, example.batch).loss
    theta = [parameter for name, parameter in example.model.named_parameters() if not name.startswith("inference")]
    found = torch.autograd.grad(loss, theta)
    states, *between = seen
    assert between
    assert (states.unsqueeze(-2) == example.model.latent.enumerate(torch.float64)).all(-1).any(-1).all()
    expected = torch.autograd.grad(-real(example.batch, states).mean(), theta)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


@UNBIASED
@NAMES
def test_one_backward_reaches_every_parameter(kind: type[Estimator], name: str) -> None:
    example = small(name)
    estimator = made(kind, example, particles=2)
    estimate = estimator(example.model, example.batch)
    estimate.loss.backward()
    for parameter in (*example.model.parameters(), *estimator.parameters()):
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
        assert parameter.grad.norm() > 0
    assert estimate.log_weights.shape == (2, 3)
    for value in (estimate.objective, estimate.log_weights, *estimate.diagnostics.values()):
        assert not value.requires_grad


@UNBIASED
def test_a_frozen_generative_model_leaves_phi_and_the_control_variate_learning(kind: type[Estimator]) -> None:
    example = EXAMPLES["two-layers"]()
    assert isinstance(example.model, BeliefNetwork)
    example.model.generative.requires_grad_(False)
    example.model.prior_parameters.requires_grad_(False)
    estimator = made(kind, example)
    estimator(example.model, example.batch).loss.backward()
    for parameter in (*example.model.inference.parameters(), *estimator.parameters()):
        assert parameter.grad is not None
        assert parameter.grad.norm() > 0
    assert all(parameter.grad is None for parameter in example.model.generative.parameters())


@UNBIASED
def test_without_gradients_the_value_is_the_same(kind: type[Estimator]) -> None:
    example = EXAMPLES["two-layers"]()
    estimator = made(kind, example)
    torch.manual_seed(4)
    expected = estimator(example.model, example.batch)
    torch.manual_seed(4)
    with torch.no_grad():
        found = estimator(example.model, example.batch)
    assert torch.equal(found.log_weights, expected.log_weights)
    assert not found.loss.requires_grad


def test_learned_control_variates_lower_the_variance() -> None:
    """From a bad start, with the model held: the norm falls, and far below that of no control variate."""
    example = EXAMPLES["one-layer"]()
    batch = repeated(example.batch, 300)
    large = Example(example.model, batch)
    for kind in (Rebar, Relax):
        estimator = made(kind, example, temperature=3.0, scale=0.2)
        optimiser = torch.optim.Adam(estimator.parameters(), lr=0.05)
        before = float(squared_norm(estimator, large, seed=5))
        for _ in range(100):
            optimiser.zero_grad()
            estimator(example.model, batch).loss.backward(inputs=list(estimator.parameters()))
            optimiser.step()
        after = float(squared_norm(estimator, large, seed=5))
        sys.stdout.write(f"\n{kind.__name__} squared norm {before:.2f} before, {after:.2f} after learning\n")
        assert after < 0.7 * before


@UNBIASED
def test_state_dict_round_trip(kind: type[Estimator]) -> None:
    example = EXAMPLES["two-layers"]()
    first = made(kind, example)
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(0.3)
    second = made(kind, example)
    second.load_state_dict(first.state_dict())
    losses = []
    for estimator in (first, second):
        torch.manual_seed(6)
        losses.append(estimator(example.model, example.batch).loss)
    assert torch.equal(*losses)


ANY_KIND = pytest.mark.parametrize("kind", [Concrete, GumbelSoftmax, StraightThrough, Rebar, Relax, MuProp])


def any_kind(kind: type[Estimator], example: Example) -> Estimator:
    return kind(particles=2) if kind in BIASED.values() else made(kind, example, particles=2)


@ANY_KIND
@pytest.mark.parametrize("name", RELAXABLE)
def test_single_precision_agrees_with_double(kind: type[Estimator], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.rand

    def same_numbers(*size: object, dtype: torch.dtype, device: torch.device) -> Tensor:
        return real(*size, dtype=torch.float64, device=device).to(dtype)

    monkeypatch.setattr(torch, "rand", same_numbers)
    found = []
    for dtype in (torch.float64, torch.float32):
        example = small(name)
        estimator = any_kind(kind, example).to(dtype)
        model, batch = example.model.to(dtype), example.batch
        context = None if batch.context is None else batch.context.to(dtype)
        torch.manual_seed(7)
        loss = estimator(model, Batch(batch.x.to(dtype), batch.index, context)).loss
        assert loss.dtype == dtype
        parameters = [*model.parameters(), *estimator.parameters()]
        found.append(torch.cat([gradient.flatten() for gradient in torch.autograd.grad(loss, parameters)]))
    exact, single = found[0], found[1].double()
    assert (single - exact).norm() < 1e-4 * exact.norm()


@ANY_KIND
def test_a_batch_of_one(kind: type[Estimator]) -> None:
    for name in RELAXABLE:
        example = small(name)
        one = example.batch.take(torch.tensor([1]))
        estimate = any_kind(kind, example)(example.model, one)
        assert estimate.log_weights.shape == (2, 1)
        assert all(value.isfinite().all() for value in gradients(example.model, estimate.loss).values())


@ANY_KIND
def test_the_model_is_left_as_it_was(kind: type[Estimator]) -> None:
    example = small("two-layers")
    any_kind(kind, example)(example.model, example.batch)
    assert all(parameter.requires_grad and parameter.grad is None for parameter in example.model.parameters())
