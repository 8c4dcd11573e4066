"""REBAR, RELAX and MuProp: unbiased with their control variates, and what gets which gradient."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor

from helpers.conformance.relaxed import RELAXABLE
from helpers.exact_expectations import FixedDraws, expected_gradients, largest_difference
from helpers.gradient_checks import assert_unbiased, relative_error
from helpers.methods import SMALL_MODELS, mixed_layers
from helpers.relaxed_examples import draws_of, made
from helpers.small_models import EXAMPLES, Example, gradients, repeated
from helpers.targets import elbo_gradients
from jsa import BeliefNetwork
from jsa.estimators import Estimator
from jsa.estimators.muprop import MuProp
from jsa.estimators.rebar import Rebar
from jsa.estimators.relax import Relax

NAMES = pytest.mark.parametrize("name", [*RELAXABLE, "mixed layers"])
CONTROLLED = pytest.mark.parametrize("kind", [Rebar, Relax])


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
    example = SMALL_MODELS[name]()
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
    example = SMALL_MODELS[name]()
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
    example = SMALL_MODELS[name]()
    estimator = made(kind, example, particles=2)
    found = []
    for learns in (True, False):
        estimator.requires_grad_(learns)
        torch.manual_seed(2)
        found.append(gradients(example.model, estimator(example.model, example.batch).loss))
    for parameter, gradient in found[0].items():
        torch.testing.assert_close(gradient, found[1][parameter], rtol=1e-12, atol=1e-14)


def test_learned_control_variates_lower_the_variance() -> None:
    """From a bad start, with the model held: the norm falls, and far below that of no control variate."""
    example = EXAMPLES["one-layer"]()
    batch = repeated(example.batch, 300)
    large = Example(example.model, batch)
    for kind in (Rebar, Relax):
        estimator = made(kind, example, temperature=3.0, scale=0.2)
        optimizer = torch.optim.Adam(estimator.parameters(), lr=0.05)
        before = float(squared_norm(estimator, large, seed=5))
        for _ in range(100):
            optimizer.zero_grad()
            estimator(example.model, batch).loss.backward(inputs=list(estimator.parameters()))
            optimizer.step()
        after = float(squared_norm(estimator, large, seed=5))
        sys.stdout.write(f"\n{kind.__name__} squared norm {before:.2f} before, {after:.2f} after learning\n")
        assert after < 0.7 * before
