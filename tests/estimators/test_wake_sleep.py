"""Reweighted wake-sleep: the bias of its wake phase, and its sleep phase against the model's own distribution."""

from __future__ import annotations

import torch

from helpers.gradient_checks import assert_unbiased, draws_of
from helpers.small_models import enumerated, exact_gradients, gradients, gradients_of, largest_difference, one_layer
from helpers.targets import marginal_and_bound_gradients
from jsa import Batch, BeliefNetwork
from jsa.estimators import ReweightedWakeSleep
from jsa.testing.gradients import compared


def bias(particles: int) -> float:
    example = one_layer()
    wake = marginal_and_bound_gradients(example.model, example.batch, particles)
    return largest_difference(wake, exact_gradients(example.model, example.batch))


def test_the_bias_of_the_wake_phase_falls_with_the_particles() -> None:
    found = [bias(particles) for particles in (1, 2, 3, 4)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.2
    assert found[3] < 0.7 * found[0]


def dream_gradients(model: BeliefNetwork) -> dict[str, torch.Tensor]:
    """The gradient of minus E[log q(h | x)] over all x and h of the model, for phi."""
    every_x = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * model.observed.width)
    exact = enumerated(model, Batch(every_x, torch.arange(len(every_x))))
    loss = -(exact.log_joint.detach().exp() * exact.log_inference).sum()
    names = [name for name, _ in model.named_parameters() if "inference" in name]
    return dict(zip(names, gradients_of(model, loss, "inference"), strict=True))


def test_the_sleep_phase_learns_from_dreams() -> None:
    example = one_layer()
    draws = draws_of(ReweightedWakeSleep(particles=1, sleep=1.0), example, copies=4_000)
    expected = dream_gradients(example.network)
    assert_unbiased({name: draws[name] for name in expected}, expected)
    # The wake phase is something else: the data are not the model's.
    wake = draws_of(ReweightedWakeSleep(particles=1), example, copies=4_000)
    phi = {name: wake[name] for name in expected}
    assert not compared(phi, expected).agrees


def test_a_mixture_of_both_phases_is_their_mixture() -> None:
    example = one_layer()
    found = []
    for sleep in (0.0, 0.25, 1.0):
        torch.manual_seed(3)
        loss = ReweightedWakeSleep(particles=2, sleep=sleep)(example.model, example.batch).loss
        found.append(gradients(example.model, loss))
    wake, mixed, asleep = found
    for name in wake:
        expected = 0.75 * wake[name] + 0.25 * asleep[name] if "inference" in name else wake[name]
        assert torch.allclose(mixed[name], expected)
