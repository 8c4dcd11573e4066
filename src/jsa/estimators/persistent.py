"""The base of the methods with one chain for each row: the chains and the two stages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jsa.batch import Batch, Estimate
from jsa.chains import ChainCache
from jsa.errors import UsageError
from jsa.estimators.base import Stage, at_least, space_of
from jsa.estimators.weighted import WeightedEstimator, weighted_loss
from jsa.importance import cached_state_win_rate, effective_sample_size, log_mean_weight
from jsa.kernels.independence import metropolis_independence
from jsa.kernels.trajectory import Trajectory
from jsa.latent import LatentSpace
from jsa.model import LatentVariableModel
from jsa.model_calls import BatchPosterior, posterior_of


class PersistentEstimator(WeightedEstimator, ABC):
    """An estimator that continues one chain for each row of the training data.

    Args:
        latent: What a state is made of: ``model.latent``.
        rows: The number of rows of the training data; a batch carries the numbers of its rows.
        particles: The number of proposals a visit.
        stage: Which stage to begin in. Assign ``estimator.stage`` to switch.
        cache_folder: Where to keep the chains memory-mapped, if not in memory.
        device: Where to keep chains that are in memory.
    """

    bookkeeping: ClassVar[tuple[str, ...]] = (*WeightedEstimator.bookkeeping, "stage_number")
    keeps_chains: ClassVar[bool] = True
    chains: ChainCache
    stage_number: Tensor

    def __init__(
        self,
        latent: LatentSpace,
        rows: int,
        particles: int = 2,
        stage: Stage | int = Stage.FRESH,
        cache_folder: Path | str | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        self.particles = at_least(particles, 1, type(self).__name__)
        # In the state_dict, because an estimator that forgot it would start all chains anew.
        self.register_buffer("stage_number", torch.zeros((), dtype=torch.int64))
        self.register_load_state_dict_post_hook(_take_stage)  # type: ignore[no-untyped-call]
        self.stage = stage
        self.chains = ChainCache(space_of(latent, type(self).__name__), rows, cache_folder, device)

    @property
    def stage(self) -> Stage:
        """Where the chains start at a visit; assign it to switch."""
        return self._stage

    @stage.setter
    def stage(self, stage: Stage | int) -> None:
        try:
            self._stage = Stage(stage)
        except ValueError:
            raise UsageError(f"the stage is Stage.FRESH or Stage.PERSISTENT, not {stage!r}") from None
        self.stage_number.fill_(int(self._stage))

    def move(
        self, model: LatentVariableModel, batch: Batch, posterior: BatchPosterior, initial: Tensor | None
    ) -> Trajectory:
        """Move the chains of a batch from their initial states, or draws of q, with ``particles`` proposals each.

        The default is Metropolis independence sampling.
        """
        return metropolis_independence(model, batch, posterior, initial, self.particles)

    @abstractmethod
    def weigh(self, trajectory: Trajectory) -> Float[Tensor, "candidates batch"]:
        """Return how much each candidate counts in the gradient; the weights of a row sum to one."""

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        """Move the chains of the batch, weigh the candidates, and store where the chains stand."""
        if model.latent != self.chains.latent:
            raise UsageError(
                f"the chains of this {type(self).__name__} are for another latent space than that of "
                f"{type(model).__name__}: make it with model.latent"
            )
        posterior = posterior_of(model, batch)
        initial = None if self.stage == Stage.FRESH else self.chains.initial_states(batch, posterior)
        with self.evaluating_candidates():
            trajectory = self.move(model, batch, posterior, initial)
        loss = self.remember(weighted_loss(model, batch, trajectory.evaluated, self.weigh(trajectory)))
        accepted = trajectory.acceptances
        proposed = trajectory.log_weights[1:]
        diagnostics = {
            "acceptance": accepted.to(proposed.dtype).mean() / len(trajectory.path),
            "effective_sample_size": effective_sample_size(proposed).mean(),
            "cached_state_win_rate": cached_state_win_rate(trajectory.log_weights),
            **self.store(batch, trajectory.last, accepted > 0),
        }
        return Estimate(loss, log_mean_weight(proposed).mean(), trajectory.log_weights, diagnostics)

    def store(
        self, batch: Batch, last: Float[Tensor, "batch width"], moved: Bool[Tensor, " batch"]
    ) -> dict[str, Float[Tensor, ""]]:
        """Store where the chains stand, in training mode only, and return how old their states are."""
        if self.training:
            fresh = torch.ones_like(moved) if self.stage == Stage.FRESH else moved
            self.chains.write(batch.index, last, fresh)
        age = self.chains.age(batch.index)
        return {"chain_age": age.mean(), "frozen_share": (age >= 1).to(age.dtype).mean()}


def _take_stage(estimator: PersistentEstimator, _: object) -> None:
    """Take over a stage that was loaded."""
    estimator.stage = int(estimator.stage_number)
