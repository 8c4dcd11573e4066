"""The loss of weighted states: dropping what carries no weight changes nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from jsa import Batch
from jsa.estimators.weighted import weighted_loss
from small_models import Example, gradients, one_layer, torch_posterior


def states_and_weights(example: Example) -> tuple[Tensor, Tensor]:
    """Five states a row, of which some have no weight and one row has none at all."""
    states = example.model.posterior(example.batch).sample((5,))
    weights = torch.rand(5, len(example.batch), dtype=torch.float64)
    weights[weights < 0.5] = 0
    weights[:, 1] = 0
    return states, weights


def test_loss_is_the_weighted_mean(example: Example) -> None:
    states, weights = states_and_weights(example)
    log_inference = example.model.posterior(example.batch).log_prob(states)
    expected = -(weights * (example.model.log_joint(example.batch, states) + log_inference)).sum(0).mean()
    posterior = example.model.posterior(example.batch)
    found = weighted_loss(example.model, example.batch, posterior, states, weights)
    assert torch.allclose(found, expected, atol=1e-12, rtol=0)
    again = gradients(example.model, expected)
    for name, gradient in gradients(example.model, found).items():
        assert (gradient - again[name]).abs().max() < 1e-12


def test_only_states_of_positive_weight_are_evaluated(example: Example) -> None:
    states, weights = states_and_weights(example)
    evaluated: list[int] = []
    log_joint = example.model.log_joint

    def counting(batch: Batch, h: Tensor) -> Tensor:
        evaluated.append(h[..., 0].numel())
        return log_joint(batch, h)

    example.model.log_joint = counting
    weighted_loss(example.model, example.batch, example.model.posterior(example.batch), states, weights)
    assert evaluated == [int((weights > 0).sum())]


def test_a_posterior_that_cannot_take_rows_gives_the_same() -> None:
    ours, theirs = one_layer(), torch_posterior()
    states, weights = states_and_weights(ours)
    losses = [
        weighted_loss(example.model, example.batch, example.model.posterior(example.batch), states, weights)
        for example in (ours, theirs)
    ]
    assert torch.allclose(*losses, atol=1e-12, rtol=0)
    found = [
        list(gradients(example.model, loss).values()) for example, loss in zip((ours, theirs), losses, strict=True)
    ]
    for first, second in zip(*found, strict=True):
        assert (first - second).abs().max() < 1e-12
