"""REBAR and RELAX: what their control variates learn, and what gets which gradient."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor

from helpers.conformance.relaxed import EVERY_RELAXABLE, made
from helpers.methods import SMALL_MODELS
from helpers.small_models import EXAMPLES, Example, gradients, logits_of
from jsa.estimators import Estimator
from jsa.estimators.rebar import Rebar
from jsa.estimators.relax import Relax
from jsa.testing.gradients import repeated

NAMES = pytest.mark.parametrize("name", EVERY_RELAXABLE)
CONTROLLED = pytest.mark.parametrize("kind", [Rebar, Relax])


def squared_norm(estimator: Estimator, example: Example, seed: int) -> Tensor:
    torch.manual_seed(seed)
    return estimator(example.model, example.batch).diagnostics["logit_gradient_norm"].square()


@CONTROLLED
@NAMES
def test_the_control_variate_descends_the_squared_norm(kind: type[Estimator], name: str) -> None:
    """By finite differences with the same noise, in every parameter of the estimator."""
    example = SMALL_MODELS[name]()
    estimator = made(kind, particles=2, temperature=0.7, scale=0.8)(example.model, example.batch)
    torch.manual_seed(1)
    loss = estimator(example.model, example.batch).loss
    parameters = list(estimator.parameters())
    found = torch.autograd.grad(loss, parameters)
    step = 1e-5
    for parameter, gradient in zip(parameters, found, strict=True):
        for place in range(parameter.numel()):
            number, values = parameter.data.view(-1)[place], []
            for sign in (1, -1):
                number += sign * step
                values.append(squared_norm(estimator, example, seed=1))
                number -= sign * step
            expected = (values[0] - values[1]) / (2 * step)
            torch.testing.assert_close(gradient.view(-1)[place], expected, rtol=1e-5, atol=1e-6)
    assert all(gradient.norm() > 0 for gradient in found)


@CONTROLLED
def test_the_squared_norm_is_that_of_the_gradient_that_phi_gets(
    kind: type[Estimator], monkeypatch: pytest.MonkeyPatch
) -> None:
    example = EXAMPLES["one-layer"]()
    posterior = example.layers
    monkeypatch.setattr(example.model, "posterior", lambda batch: posterior)
    estimate = made(kind)(example.model, example.batch)(example.model, example.batch)
    (gradient,) = torch.autograd.grad(estimate.loss, logits_of(posterior))
    rows = len(example.batch)
    torch.testing.assert_close(
        rows * gradient.square().sum(), estimate.diagnostics["logit_gradient_norm"].square(), rtol=1e-10, atol=0
    )


@CONTROLLED
@NAMES
def test_learning_the_control_variate_gives_theta_and_phi_nothing(kind: type[Estimator], name: str) -> None:
    example = SMALL_MODELS[name]()
    estimator = made(kind, particles=2)(example.model, example.batch)
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
        estimator = made(kind, temperature=3.0, scale=0.2)(example.model, example.batch)
        optimizer = torch.optim.Adam(estimator.parameters(), lr=0.05)
        before = float(squared_norm(estimator, large, seed=5))
        for _ in range(100):
            optimizer.zero_grad()
            estimator(example.model, batch).loss.backward(inputs=list(estimator.parameters()))
            optimizer.step()
        after = float(squared_norm(estimator, large, seed=5))
        sys.stdout.write(f"\n{kind.__name__} squared norm {before:.2f} before, {after:.2f} after learning\n")
        assert after < 0.7 * before
