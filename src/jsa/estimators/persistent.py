"""The base of the methods with one chain for each row: the chains and the two stages."""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from jsa.batch import Batch, Estimate
from jsa.chains import ChainCache
from jsa.chains.numbering import NumberingWatch
from jsa.errors import CheckpointError, Range, UsageError
from jsa.estimators.base import Stage, at_least, space_of
from jsa.estimators.gradient_states import Gradient, check_gradient, shares
from jsa.estimators.weighted import WeightedEstimator, weighted_loss
from jsa.importance import cached_state_win_rate, effective_sample_size, log_mean_weight
from jsa.io.tensor_files import packed, unpacked
from jsa.kernels import Independence, Kernel, MetropolisHastings, Repeat, Target, Trajectory
from jsa.latent import LatentSpace
from jsa.model import LatentVariableModel
from jsa.model_calls import BatchPosterior, posterior_of

ASSIGNED_STAGE = "assigned_stage"


class _Default(int):
    """A number that nobody gave."""


class PersistentEstimator(WeightedEstimator, ABC):
    """An estimator that continues one chain for each row of the training data.

    A method is a choice of two: the kernel that moves the chains, and the states that the gradient uses. The bound and
    the watch of row numbers need draws of whole states from q. A kernel that makes none, such as one of blocks alone,
    costs one more evaluation a visit in stage II: that of one draw for each row.

    In evaluation mode chains are neither read nor written: states start from draws of q, and a batch needs no row
    numbers.

    Args:
        latent: What a state is made of: ``model.latent``.
        rows: The number of rows of the training data; a batch carries the numbers of its rows.
        particles: The number of proposals a visit, if no kernel is given: Metropolis independence moves, or what the
            method has instead.
        stage: The stage, stage I where not given. Assign ``estimator.stage`` to switch.
        switch_after: The number of passes through the data, by all processes together, after which stage II begins by
            itself. An assigned stage overrides it.
        cache_folder: The folder that keeps the chains on disk, if not in memory.
        device: Where to keep chains that are in memory; where the module is moved to where not given.
        kernel: The moves of a visit, in place of ``particles``. It adapts itself in stage I only.
        gradient: The states that the gradient uses; by default those of the method.

            - ``last``: where each chain stands after its moves. The others need no backward pass.
            - ``visited``: the states after each move; one that stays is counted again.
            - ``rao-blackwell``: the expectation of that over the acceptances of Metropolis independence moves.
            - ``conditional-importance``: the initial state and all proposals, by weight.

            The last two weigh independent draws of q, so that kernels with other proposals are refused.
    """

    default_gradient: ClassVar[Gradient] = "visited"
    keeps_chains: ClassVar[bool] = True
    chains: ChainCache

    def __init__(
        self,
        latent: LatentSpace,
        rows: int,
        particles: int = _Default(2),
        stage: Stage | int | None = None,
        switch_after: float | None = None,
        cache_folder: Path | str | None = None,
        device: torch.device | str | None = None,
        kernel: Kernel | None = None,
        gradient: Gradient | None = None,
    ) -> None:
        super().__init__()
        self.kernel = self._kernel(particles, kernel)
        self.particles = self.kernel.proposals
        self.gradient = check_gradient(gradient or self.default_gradient, self.kernel)
        # What follows from the method or from the kernel is not said again.
        implied = {"kernel" if kernel is None else "particles", *(["gradient"] if gradient is None else [])}
        self._made_with = {name: text for name, text in self._made_with.items() if name not in implied}
        if stage is not None and switch_after is not None:
            raise UsageError("a stage that is given does not switch: give either stage or switch_after")
        Range(least=0).check(switch_after=switch_after)
        self.switch_after = switch_after
        self._assigned = None if stage is None else _stage(stage)
        self.kernel.check(space_of(latent, type(self).__name__))
        self.chains = ChainCache(latent, rows, cache_folder, device)
        self._numbering = NumberingWatch()
        self._told_no_chains = False

    @property
    def stage(self) -> Stage:
        """Where the chains start at a visit; assign it to switch."""
        if self._assigned is not None:
            return self._assigned
        switched = self.switch_after is not None and self.chains.passes >= self.switch_after
        return Stage.PERSISTENT if switched else Stage.FRESH

    @stage.setter
    def stage(self, stage: Stage | int) -> None:
        self._assigned = _stage(stage)

    def get_extra_state(self) -> UInt8[Tensor, " bytes"]:
        """Return the chains and an assigned stage as one tensor, which every framework saves and loads."""
        assigned = torch.tensor([0 if self._assigned is None else int(self._assigned)])
        return packed({ASSIGNED_STAGE: assigned, **self.chains.state_dict()})

    def set_extra_state(self, state: Tensor) -> None:
        """Take over chains and stage; those of other rows, of another latent space or process are refused."""
        saved = unpacked(state)
        assigned = saved.pop(ASSIGNED_STAGE, None)
        if assigned is None or assigned.shape != (1,) or int(assigned) not in (0, *Stage):
            raise CheckpointError("the saved chains do not tell their stage: use another copy")
        self.chains.load_state_dict(saved)
        self._assigned = Stage(int(assigned)) if int(assigned) else None

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Tensor],
        prefix: str,
        local_metadata: dict[str, object],
        strict: bool,
        missing_keys: list[str],
        *others: list[str],
    ) -> None:
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, *others)
        key = f"{prefix}_extra_state"
        if key not in state_dict:
            missing_keys[:] = [name for name in missing_keys if name != key]
            warnings.warn(f"this state_dict has no chains ({key}): the chains stay as they are", stacklevel=2)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        # Chains go where a module is moved to, but no change of precision is theirs.
        self.chains.to(fn(torch.empty(0, dtype=torch.uint8)).device)
        return self

    @staticmethod
    def moves_of(particles: int) -> Kernel:
        """Return the kernel with this many proposals: Metropolis independence moves, unless a method has another."""
        return Repeat(MetropolisHastings(Independence()), particles)

    def weigh(self, trajectory: Trajectory) -> Float[Tensor, "candidates batch"]:
        """Return how much each candidate counts in the gradient; the weights of a row sum to one."""
        return shares(self.gradient, trajectory)

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        """Move the chains of the batch, weigh the candidates, and store where the chains stand."""
        posterior = self._posterior(model, batch)
        if not self.training:
            return self._from(model, batch, posterior, None)[0]
        # Asked for here, so that a batch without them is refused before the work.
        rows, initial = batch.row_numbers, self.initial_states(batch, posterior)
        estimate, trajectory = self._from(model, batch, posterior, initial, adapt=initial is None)
        moved = trajectory.moved(model.latent)
        self.chains.write(rows, trajectory.last, torch.ones_like(moved) if initial is None else moved)
        if initial is not None:
            self._numbering.add(estimate.diagnostics["cached_state_win_rate"], len(batch), self.chains.passes)
        age = self.chains.age(rows)
        ages = {"chain_age": age.mean(), "frozen_share": (age >= 1).to(age.dtype).mean()}
        return replace(estimate, diagnostics={**estimate.diagnostics, **ages})

    def estimate_from(
        self, model: LatentVariableModel, batch: Batch, initial: Float[Tensor, "batch width"] | None
    ) -> Estimate:
        """Return the estimate for chains that start from these states, or from draws of q; no chain is stored."""
        return self._from(model, batch, self._posterior(model, batch), initial)[0]

    def initial_states(self, batch: Batch, posterior: BatchPosterior) -> Float[Tensor, "batch width"] | None:
        """Return where the chains of a batch start at this visit; None for draws of q, as in stage I."""
        if self.stage == Stage.FRESH:
            return None
        if self.chains.visits == 0 and not self._told_no_chains:
            self._told_no_chains = True
            warnings.warn(
                "stage II begins without chains, which start from draws of q: if they should continue, load the "
                "state_dict that holds them",
                stacklevel=3,
            )
        return self.chains.initial_states(batch, posterior)

    def _kernel(self, particles: int, kernel: Kernel | None) -> Kernel:
        if kernel is None:
            return self.moves_of(at_least(int(particles), 1, type(self).__name__))
        if not isinstance(kernel, Kernel):
            raise UsageError(
                f"the kernel of {type(self).__name__} is one of jsa.kernels, as MetropolisHastings(Independence()), "
                f"not {type(kernel).__name__}"
            )
        if not isinstance(particles, _Default):
            raise UsageError(
                "particles are the proposals of a method's own moves, and a kernel says its own: give either particles "
                "or kernel"
            )
        return kernel

    def _posterior(self, model: LatentVariableModel, batch: Batch) -> BatchPosterior:
        if model.latent != self.chains.latent:
            raise UsageError(
                f"the chains of this {type(self).__name__} are for another latent space than that of "
                f"{type(model).__name__}: make it with model.latent"
            )
        return posterior_of(model, batch)

    def _from(
        self,
        model: LatentVariableModel,
        batch: Batch,
        posterior: BatchPosterior,
        initial: Tensor | None,
        *,
        adapt: bool = False,
    ) -> tuple[Estimate, Trajectory]:
        target = Target(model, batch, posterior)
        with self.evaluating_candidates():
            moves = self.kernel.move(target, initial, adapt=adapt)
        loss = self.remember(weighted_loss(model, batch, moves.evaluated, self.weigh(moves)))
        proposed = _draws_of_q(target, moves, initial)
        compared = moves.log_weights if moves.independent else torch.cat([moves.log_weights[:1], proposed])
        diagnostics = {
            "acceptance": moves.acceptance,
            "effective_sample_size": effective_sample_size(proposed).mean(),
            "cached_state_win_rate": cached_state_win_rate(compared),
            **changes(moves, model.latent),
        }
        return Estimate(loss, batch.mean(log_mean_weight(proposed)), moves.log_weights, diagnostics), moves


def changes(moves: Trajectory, latent: LatentSpace) -> dict[str, Tensor]:
    """Return how far the chains went for what it cost, and the figures of each kernel if there are several.

    ``changed_per_evaluation`` is the number of variables that differ after a visit, divided by the evaluated states.
    """
    found = {"changed_per_evaluation": moves.changed(latent).mean() / len(moves.candidates)}
    by_kernel = moves.by_kernel()
    if len(by_kernel) > 1:
        for name, parts in by_kernel.items():
            made = sum(len(part.path) for part in parts)
            accepted = torch.stack([part.acceptance * (len(part.path) / made) for part in parts])
            changed = torch.stack([part.changed(latent).mean() for part in parts])
            evaluations = sum(len(part.candidates) - 1 for part in parts)
            found |= {f"{name}_acceptance": accepted.sum(), f"{name}_changed": changed.sum() / evaluations}
    return found


def _draws_of_q(target: Target, moves: Trajectory, initial: Tensor | None) -> Float[Tensor, "draws batch"]:
    """Return the log-weights of whole states that were drawn from q, whatever the chains: of one more if none were."""
    if moves.independent:
        return moves.log_weights[1:]
    if moves.fresh:
        return torch.stack([moves.log_weights[number] for number in moves.fresh])
    if initial is None:
        return moves.log_weights[:1]
    with torch.no_grad():
        return target.candidates(None).log_weights


def _stage(stage: Stage | int) -> Stage:
    try:
        return Stage(stage)
    except ValueError:
        raise UsageError(f"the stage is Stage.FRESH or Stage.PERSISTENT, not {stage!r}") from None
