"""The methods whose chains persist, with chains drawn from the exact posterior."""

from __future__ import annotations

import torch

from helpers.conformance.cases import Case, Make
from helpers.targets import exact_gradients
from jsa import JSA, Batch, LatentVariableModel, PersistentEstimator
from jsa.estimators import Hybrid, MarkovianScoreClimbing, RaoBlackwellJSA
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


def exact(model: LatentVariableModel, batch: Batch) -> dict[str, torch.Tensor]:
    return exact_gradients(model, batch)


NAME = "log p(x) and KL(p || q)"

CASES = [
    Case("JSA", chains(JSA), exact, NAME, {"repeats not counted": ("categorical", chains(WithoutRepeats))}),
    Case(
        "JSA, Rao-Blackwell",
        chains(RaoBlackwellJSA),
        exact,
        NAME,
        {"stale weights": ("categorical", chains(StaleOccupancy))},
    ),
    Case("hybrid", chains(Hybrid), exact, NAME, {"the state left out": ("categorical", chains(HybridWithoutTheState))}),
    Case(
        "MSC",
        chains(MarkovianScoreClimbing),
        exact,
        NAME,
        {"the state left out": ("categorical", chains(WithoutTheState))},
    ),
]
