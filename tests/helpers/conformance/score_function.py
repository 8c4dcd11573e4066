"""The methods that need no more of a posterior than draws and probabilities."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from helpers.conformance.cases import Case, Make, of
from helpers.targets import bound_gradients, marginal_and_bound_gradients
from jsa import Batch, LatentVariableModel
from jsa.batch import Estimate
from jsa.estimators import NVIL, VIMCO, LeaveOneOut, Reinforce, ReweightedWakeSleep
from jsa.estimators.base import Estimator, score_samples
from jsa.importance import leave_one_out_bounds, log_mean_weight
from jsa.model import LayeredJoint
from jsa.model_calls import posterior_of

Coefficients = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
TWO_DRAWS = of(LeaveOneOut, particles=2)


class Surrogate(Estimator):
    """A twin that is given by its coefficients of log q and log p, from the log-weights."""

    def __init__(self, particles: int, coefficients: Coefficients) -> None:
        super().__init__()
        self.particles = particles
        self.coefficients = coefficients

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        draws = score_samples(model, batch, self.particles)
        phi, theta = self.coefficients(draws.log_weights)
        loss = -(phi * draws.log_inference + theta * draws.log_joint).sum(0).mean()
        return Estimate(loss, loss.detach(), draws.log_weights, {})


def twin(particles: int, coefficients: Coefficients) -> Make:
    return lambda model, batch: Surrogate(particles, coefficients)


def centered_by_all(f: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A draw in its own baseline."""
    return (f - f.mean(0)) / len(f), torch.full_like(f, 1 / len(f))


def centered_by_itself(f: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A baseline that depends on the draw whose signal it centers."""
    return f - 0.5 * f, torch.ones_like(f)


def without_normalized_weights(f: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """VIMCO's classic slip: the term from the derivative of the bound is missing."""
    return log_mean_weight(f) - leave_one_out_bounds(f), f.softmax(0)


def equal_weights(f: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Wake-sleep without the reweighting."""
    return torch.full_like(f, 1 / len(f)), torch.full_like(f, 1 / len(f))


class ShortSighted(NVIL):
    """NVIL whose signals leave out the layers above, which are drawn later and depend on this one."""

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        assert isinstance(model, LayeredJoint)
        posterior = posterior_of(model, batch).layered("NVIL")
        h = posterior.sample((self.particles,))
        joints, inferences = model.log_joint_terms(batch, h), posterior.layer_log_probs(h)
        joint, inference_of_all = torch.stack(joints).sum(0), torch.stack(inferences).sum(0)
        gain = joint.mean()
        for layer, inference in enumerate(inferences):
            gain = gain + ((joints[layer] - inference).detach() * inference).mean()
        weights = (joint - inference_of_all).detach()
        return Estimate(-gain, weights.mean(), weights, {})


def nvil(kind: type[NVIL]) -> Make:
    """Without the division, which only changes the scale, and with baselines and centers that are not zero."""

    def make(model: LatentVariableModel, batch: Batch) -> NVIL:
        estimator = kind(model.latent, batch.inputs.shape[-1], particles=1, hidden=3, normalize=False).double()
        estimator.centers.fill_(-2.0)
        return estimator

    return make


def with_running_baseline(model: LatentVariableModel, batch: Batch) -> Reinforce:
    estimator = Reinforce(particles=1, baseline="running").double()
    estimator.running_signal.fill_(-2.0)
    estimator.steps.fill_(10)
    return estimator


CASES = [
    Case(
        "REINFORCE",
        of(Reinforce, particles=1),
        {"a baseline that knows the draw": ("one-layer", twin(1, centered_by_itself))},
        draws=1,
    ),
    Case("REINFORCE, running baseline", with_running_baseline, draws=1),
    Case("RLOO", TWO_DRAWS, {"draws in their own baseline": ("categorical", twin(2, centered_by_all))}, draws=2),
    Case("NVIL", nvil(NVIL), {"the layers above left out": ("two-layers", nvil(ShortSighted))}, draws=1),
    Case(
        "VIMCO",
        of(VIMCO, particles=2),
        {
            "without the normalized weights": ("one-layer", twin(2, without_normalized_weights)),
            "RLOO claimed as VIMCO": ("one-layer", TWO_DRAWS),
        },
        target=partial(bound_gradients, particles=2),
        target_name="bound, n = 2",
        draws=2,
    ),
    Case(
        "RWS",
        of(ReweightedWakeSleep, particles=2),
        {"equal weights": ("one-layer", twin(2, equal_weights))},
        target=partial(marginal_and_bound_gradients, particles=2),
        target_name="bound and wake score, n = 2",
        draws=2,
    ),
]
