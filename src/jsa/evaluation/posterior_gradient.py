"""The gradient under the posterior itself, which methods with chains estimate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from jsa.batch import Batch
from jsa.errors import UsageError
from jsa.estimators import Enumeration
from jsa.estimators.weighted import weighted_loss
from jsa.evaluation.moments import GROUPS, Moments, gradient_vectors, group_sizes
from jsa.kernels import Independence, MetropolisHastings, Target, Trajectory
from jsa.model import LatentVariableModel
from jsa.model_calls import BatchPosterior, posterior_of
from jsa.parameter_groups import parameter_groups

MOVES_AT_ONCE = 20

STATES_SUMMED = 4_096
"""The largest number of latent states over which the gradient is summed exactly."""


@dataclass(frozen=True)
class PosteriorGradient:
    """The gradient under the posterior, for theta and for phi.

    Attributes:
        gradients: Each as one vector.
        squared_errors: The noise of each, summed over its components. It is estimated from the spread over parts of the
            long chains, so it is too low if a chain is correlated for longer than a part; 0 if enumerated.
    """

    gradients: Mapping[str, Tensor]
    squared_errors: Mapping[str, float]


@torch.enable_grad()
def posterior_gradient(
    model: LatentVariableModel, batch: Batch, moves: int = 20_000, burn_in: int | None = None
) -> PosteriorGradient:
    """Return the gradient under the posterior: enumerated if possible, else from long chains.

    Args:
        model: The model.
        batch: The batch.
        moves: The Metropolis moves of each row's long chain.
        burn_in: The number of moves that are discarded first; by default a twentieth.

    Example:
        >>> from jsa import BeliefNetwork, LatentSpace, Layer
        >>> model = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("bernoulli", 3)))
        >>> found = posterior_gradient(model, Batch(torch.eye(4)))
        >>> {name: len(gradient) for name, gradient in found.gradients.items()}, found.squared_errors
        ({'theta': 16, 'phi': 15}, {'theta': 0.0, 'phi': 0.0})
    """
    before = moves // 20 if burn_in is None else burn_in
    check_reference_moves(moves, before)
    groups = parameter_groups(model, batch)
    if can_be_enumerated(model):
        exact = gradient_vectors(Enumeration()(model, batch).loss, groups)
        return PosteriorGradient(exact, dict.fromkeys(exact, 0.0))
    with torch.no_grad():
        posterior = posterior_of(model, batch)
        state = moved(model, batch, posterior, posterior.sample((1,))[0], before)
    parts = {name: Moments() for name in groups}
    total: dict[str, Tensor] = {}
    for size in group_sizes(moves - before):
        part: dict[str, Tensor] = {}
        for count in _rounds(size):
            target = Target(model, batch)
            with torch.no_grad():
                trajectory = posterior_moves(target, state, count)
            state = trajectory.last
            weights = trajectory.multiplicities.to(state.dtype) / count
            loss = weighted_loss(model, batch, trajectory.evaluated, weights).loss
            for name, gradient in gradient_vectors(loss, groups).items():
                part[name] = part.get(name, torch.zeros_like(gradient)) + gradient * (count / size)
        for name, mean in part.items():
            parts[name].add(mean)
            total[name] = total.get(name, torch.zeros_like(mean)) + mean * (size / (moves - before))
    return PosteriorGradient(total, {name: seen.summed_variance / GROUPS for name, seen in parts.items()})


def can_be_enumerated(model: LatentVariableModel) -> bool:
    """Return whether the posterior's gradient is summed over all states rather than estimated from long chains."""
    return model.latent.states <= STATES_SUMMED


def check_reference_moves(moves: int, burn_in: int = 0) -> None:
    """Refuse too few moves of the long chains for an average and an estimate of its noise."""
    if moves < GROUPS:
        raise UsageError(f"the long chains of the reference need at least {GROUPS} moves, not {moves}")
    if not 0 <= burn_in <= moves - GROUPS:
        raise UsageError(f"{moves} moves leave room for a burn-in of 0 to {moves - GROUPS}, not {burn_in}")


def moved(model: LatentVariableModel, batch: Batch, posterior: BatchPosterior, state: Tensor, moves: int) -> Tensor:
    """Return the states of chains after this many moves."""
    for count in _rounds(moves):
        state = posterior_moves(Target(model, batch, posterior), state, count).last
    return state


def posterior_moves(target: Target, state: Tensor, count: int) -> Trajectory:
    """Move the long chains this many times."""
    return MetropolisHastings(Independence()).move(target, state, count).checked(target.batch)


def _rounds(moves: int) -> Iterator[int]:
    """Yield the numbers of moves that are made at once."""
    for done in range(0, moves, MOVES_AT_ONCE):
        yield min(MOVES_AT_ONCE, moves - done)
