"""Baselines that learn: they change the noise and never the mean, and no draw centers itself."""

from __future__ import annotations

from dataclasses import replace

import torch

from helpers.small_models import Example, first_linear, one_layer
from jsa.estimators import NVIL, Estimator, Reinforce
from jsa.evaluation.gradient_variance import gradient_report
from jsa.testing.gradients import repeated


def noise(example: Example, estimator: Estimator) -> float:
    """The log-variance of the gradient of phi."""
    return gradient_report(example.model, estimator, example.batch, draws=300).total["phi"].log_variance


def test_the_running_baseline_follows_the_signal_of_earlier_steps() -> None:
    example = one_layer()
    estimator = Reinforce(particles=1, baseline="running", decay=0.5).double()
    expected = 0.0
    for _ in range(3):
        expected = 0.5 * expected + 0.5 * float(estimator(example.model, example.batch).objective)
    assert float(estimator.running_signal) == expected
    assert int(estimator.steps) == 3


def test_a_baseline_makes_reinforce_quieter() -> None:
    example = one_layer()
    example = replace(example, batch=example.batch.take(torch.tensor([0])))
    centered = Reinforce(baseline="running").double()
    for _ in range(50):
        centered(example.model, example.batch)
    assert noise(example, centered) < noise(example, Reinforce()) - 0.3


def test_the_networks_of_nvil_learn_to_predict_the_signal() -> None:
    example = one_layer()
    batch = repeated(example.batch, 50)
    estimator = NVIL(example.model.latent, inputs=4, particles=1, hidden=8, normalize=False).double()
    optimizer = torch.optim.Adam(estimator.parameters(), lr=0.05)
    before = noise(example, estimator)
    for _ in range(200):
        optimizer.zero_grad()
        estimator(example.model, batch).loss.backward()
        optimizer.step()
    assert noise(example, estimator) < before - 0.3


def test_dividing_by_the_deviation_scales_the_gradient_down() -> None:
    example = one_layer()
    losses = []
    for normalize in (False, True):
        torch.manual_seed(0)
        estimator = NVIL(example.model.latent, inputs=4, normalize=normalize).double()
        estimator.variances.fill_(4.0)
        torch.manual_seed(1)
        losses.append(estimator(example.model, example.batch).loss)
    parameter = first_linear(example.network.inference).weight
    plain, divided = (torch.autograd.grad(loss, parameter)[0] for loss in losses)
    assert torch.allclose(divided, plain / 2)
