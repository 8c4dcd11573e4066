"""The oracle of the library: gradients by enumeration."""

from __future__ import annotations

import torch

from helpers.small_models import Example, enumerated, exact_gradients, gradients
from jsa import Enumeration


def test_gradient_is_that_of_the_enumerated_objective(example: Example) -> None:
    estimate = Enumeration()(example.model, example.batch)
    expected = exact_gradients(example.model, example.batch)
    for name, gradient in gradients(example.model, estimate.loss).items():
        assert (gradient - expected[name]).abs().max() < 1e-12


def test_gradient_of_the_generative_model_is_that_of_the_log_likelihood(example: Example) -> None:
    # Another way to the same: the inference model has no part in log p(x).
    log_likelihood = enumerated(example.model, example.batch).log_likelihood.mean()
    estimate = Enumeration()(example.model, example.batch)
    found = gradients(example.model, estimate.loss)
    for name, parameter in example.model.named_parameters():
        if "inference" not in name:
            (expected,) = torch.autograd.grad(-log_likelihood, parameter, retain_graph=True)
            assert (found[name] - expected).abs().max() < 1e-12


def test_objective_and_weights_are_exact(example: Example) -> None:
    exact = enumerated(example.model, example.batch)
    estimate = Enumeration()(example.model, example.batch)
    assert torch.allclose(estimate.objective, exact.log_likelihood.mean(), atol=1e-12, rtol=0)
    assert torch.allclose(estimate.log_weights, exact.log_weights, atol=1e-12, rtol=0)
    assert not estimate.objective.requires_grad
    assert not estimate.log_weights.requires_grad
