"""The methods whose chains persist, with chains drawn from the exact posterior."""

from __future__ import annotations

from unittest import mock

import torch

import jsa.importance
from helpers.conformance.cases import ALL, Case, Make
from helpers.small_models import exact_gradients
from jsa import JSA, Batch, Estimate, LatentVariableModel, PersistentEstimator
from jsa.estimators import Hybrid, MarkovianScoreClimbing, RaoBlackwellJSA
from jsa.experiments.worker import stale_weight_path
from jsa.kernels import Trajectory


def chains(kind: type[PersistentEstimator], particles: int = 3) -> Make:
    return lambda model, batch: kind(model.latent, len(batch), particles, stage=2)


class WithoutRepeats(JSA):
    """A state that stays is not counted again."""

    def weigh(self, trajectory: Trajectory) -> torch.Tensor:
        visited = (trajectory.multiplicities > 0).to(trajectory.log_weights.dtype)
        return visited / visited.sum(0)


class WithoutTheState(MarkovianScoreClimbing):
    """The chain's own state does not compete."""

    def weigh(self, trajectory: Trajectory) -> torch.Tensor:
        proposed = trajectory.log_weights[1:].softmax(0)
        return torch.cat([torch.zeros_like(proposed[:1]), proposed])


class HybridWithoutTheState(Hybrid):
    """Likewise."""

    def weigh(self, trajectory: Trajectory) -> torch.Tensor:
        return WithoutTheState.weigh(self, trajectory)  # type: ignore[arg-type]


class StaleOccupancy(RaoBlackwellJSA):
    """Every proposal is compared with the weight of the state at the start, wherever the chain stands."""

    def weigh(self, trajectory: Trajectory) -> torch.Tensor:
        weights = trajectory.log_weights
        here = torch.zeros_like(weights)
        here[0] = 1
        total = torch.zeros_like(weights)
        for move in range(1, len(weights)):
            accepted = (weights[move] - weights[0]).clamp_max(0).exp()
            here[move] = here[:move].sum(0) * accepted
            here[:move] *= 1 - accepted
            total += here
        return total / (len(weights) - 1)


class StaleWeights(JSA):
    """Every proposal is compared with the weight of the state at the start."""

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        with mock.patch.object(jsa.importance, "independence_path", stale_weight_path):
            return super().forward(model, batch)


WITHOUT_THE_STATE = "the state left out"
JSA_TWINS = {
    "repeats not counted": ("categorical", chains(WithoutRepeats)),
    # The exact sums see it at every example; by draws this one shows it.
    **{f"stale weights, {name}": (name, chains(StaleWeights)) for name in ("one-layer", "categorical")},
}
EVERY = (*ALL, "layers-that-know-the-row")

KINDS: list[tuple[str, Make, dict[str, tuple[str, Make]], tuple[str, ...]]] = [
    ("JSA", chains(JSA), JSA_TWINS, EVERY),
    ("JSA, n = 1", chains(JSA, 1), {}, EVERY),
    ("JSA, Rao-Blackwell", chains(RaoBlackwellJSA), {"stale weights": ("categorical", chains(StaleOccupancy))}, ALL),
    ("hybrid", chains(Hybrid), {WITHOUT_THE_STATE: ("categorical", chains(HybridWithoutTheState))}, ALL),
    ("MSC", chains(MarkovianScoreClimbing), {WITHOUT_THE_STATE: ("categorical", chains(WithoutTheState))}, ALL),
]
CASES = [Case(*kind, exact_gradients, "log p(x) and KL(p || q)") for kind in KINDS]
