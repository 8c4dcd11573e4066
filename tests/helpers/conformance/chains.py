"""The methods whose chains persist, with chains drawn from the exact posterior."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import torch

import jsa.importance
from helpers.conformance.cases import ALL, Case, Make
from helpers.small_models import exact_gradients
from jsa import JSA, Batch, Estimate, LatentVariableModel, PersistentEstimator
from jsa.estimators import Hybrid, MarkovianScoreClimbing, RaoBlackwellJSA
from jsa.estimators.gradient_states import Gradient
from jsa.experiments.worker import stale_weight_path
from jsa.importance import occupancy
from jsa.kernels import (
    Block,
    Cycle,
    Independence,
    Kernel,
    MetropolisHastings,
    Proposal,
    Proposed,
    Repeat,
    Target,
    Trajectory,
)
from jsa.model_calls import EvaluatedStates


def chains(kind: type[PersistentEstimator], particles: int = 3) -> Make:
    return lambda model, batch: kind(model.latent, len(batch), particles, stage=2)


def moving(kernel: Kernel, gradient: Gradient, kind: type[PersistentEstimator] = JSA) -> Make:
    return lambda model, batch: kind(model.latent, len(batch), stage=2, kernel=kernel, gradient=gradient)


def mixing(block: Proposal) -> Kernel:
    """A whole state, then blocks."""
    return Cycle(MetropolisHastings(Independence()), Repeat(MetropolisHastings(block), 4))


class WithoutReverse(Block):
    """The ratio lacks the density of the way back."""

    def propose(
        self, target: Target, current: EvaluatedStates, chosen: torch.Tensor, uniforms: torch.Tensor
    ) -> Proposed:
        proposed = super().propose(target, current, chosen, uniforms)
        return replace(proposed, log_backward=torch.zeros_like(proposed.log_backward))


class OccupancyOfBlocks(JSA):
    """Blocks, which depend on the state, weighed as if they were independent draws of q."""

    def weigh(self, trajectory: Trajectory) -> torch.Tensor:
        return occupancy(trajectory.log_weights)


class WeightsOfBlocks(JSA):
    """Likewise."""

    def weigh(self, trajectory: Trajectory) -> torch.Tensor:
        return trajectory.log_weights.softmax(0)


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
BLOCKS = Repeat(MetropolisHastings(Block(0.4)), 3)
BLOCK_TWINS = {
    "without the way back": ("one-layer", moving(mixing(WithoutReverse()), "last")),
    "occupancy of blocks": ("one-layer", moving(BLOCKS, "visited", OccupancyOfBlocks)),
    "weights of blocks": ("one-layer", moving(BLOCKS, "visited", WeightsOfBlocks)),
}
EVERY = (*ALL, "layers-that-know-the-row")
LAYERED = tuple(name for name in EVERY if name != "torch-posterior")

KINDS: list[tuple[str, Make, dict[str, tuple[str, Make]], tuple[str, ...]]] = [
    ("JSA", chains(JSA), JSA_TWINS, EVERY),
    ("JSA, n = 1", chains(JSA, 1), {}, EVERY),
    ("JSA, blocks, last", moving(mixing(Block()), "last"), BLOCK_TWINS, LAYERED),
    ("JSA, blocks alone, visited", moving(BLOCKS, "visited"), {}, LAYERED),
    ("JSA, last", moving(Repeat(MetropolisHastings(Independence()), 3), "last"), {}, ("one-layer", "torch-posterior")),
    ("JSA, Rao-Blackwell", chains(RaoBlackwellJSA), {"stale weights": ("categorical", chains(StaleOccupancy))}, ALL),
    ("hybrid", chains(Hybrid), {WITHOUT_THE_STATE: ("categorical", chains(HybridWithoutTheState))}, ALL),
    ("MSC", chains(MarkovianScoreClimbing), {WITHOUT_THE_STATE: ("categorical", chains(WithoutTheState))}, ALL),
]
CASES = [Case(*kind, exact_gradients, "log p(x) and KL(p || q)") for kind in KINDS]
