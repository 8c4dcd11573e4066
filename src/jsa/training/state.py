"""The state of a training in one file, from which it goes on to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from jsa.errors import CheckpointError, JsaError
from jsa.estimators import Estimator, PersistentEstimator
from jsa.learner import Learner
from jsa.model import LatentVariableModel
from jsa.tensors import load_tensors, save_tensors
from jsa.training.checkpoint import check_format, check_shapes
from jsa.training.identity import check_identity
from jsa.training.numbers import refuse_non_finite_weights
from jsa.training.optimiser import optimiser_tensors, restore_optimiser
from jsa.training.randomness import random_states, restore_random_states
from jsa.training.standing import Standing

FORMAT = 3
CHAINS = "chains"


class TrainingState:
    """Everything that a training changes, to be written and read as one.

    Renaming the new file over the old one is the moment at which a checkpoint is made: whatever else the run folder
    holds is made again from it where a crash came in between.

    Args:
        learner: The model and its estimator.
        optimiser: The optimiser of both.
        average: The average of the model's weights, where there is one.
        device: Where the training runs.
        identity: What must be the same when the state is read.
    """

    def __init__(
        self,
        learner: Learner,
        optimiser: torch.optim.Optimizer,
        average: AveragedModel | None,
        device: torch.device,
        identity: Mapping[str, object],
    ) -> None:
        self.standing = Standing()
        self._learner = learner
        self._optimiser = optimiser
        self._average = average
        self._device = device
        self._identity = identity

    @property
    def _chains(self) -> PersistentEstimator | None:
        estimator = self._learner.estimator
        return estimator if isinstance(estimator, PersistentEstimator) else None

    def save(self, path: Path) -> None:
        """Writes the state, whole or not at all; one that is not finite is refused."""
        refuse_non_finite_weights(self._learner)
        chains = self._chains
        parts: dict[str, Mapping[str, Tensor]] = {
            "learner": self._learner.state_dict(),
            "optimiser": optimiser_tensors(self._learner, self._optimiser),
            "average": {} if self._average is None else self._average.state_dict(),
            "random": random_states(self._device),
            "means": self.standing.means.sums,
            CHAINS: {} if chains is None else chains.cache.checkpoint(),
        }
        tensors = {f"{part}:{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
        notes = {
            "format": FORMAT,
            "identity": self._identity,
            "standing": self.standing.to_notes(),
        }
        save_tensors(path, tensors, notes)
        if chains is not None:
            chains.cache.committed()

    def load(self, path: Path) -> None:
        """Puts everything to where it was when the state was written."""
        tensors, notes = _read(path)
        try:
            check_identity(self._identity, notes.get("identity"))
            self._take(path, tensors, notes)
        except JsaError as error:
            raise CheckpointError(f"the run cannot be continued from {path}: {error}") from error

    def _take(self, path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, object]) -> None:
        standing = Standing.from_notes(notes.get("standing"), _part(tensors, "means", self._device))
        weights = _part(tensors, "learner")
        check_shapes(self._learner, weights, path)
        self._learner.load_state_dict(weights)
        restore_optimiser(self._learner, self._optimiser, _part(tensors, "optimiser"))
        if self._average is not None:
            average = _part(tensors, "average")
            check_shapes(self._average, average, path)
            self._average.load_state_dict(average)
        if self._chains is not None:
            self._chains.cache.restore(_part(tensors, CHAINS))
        restore_random_states(_part(tensors, "random"), self._device)
        self.standing = standing


def load_learner(path: Path, learner: Learner) -> None:
    """Takes the weights, the chains and their stage from a state file and nothing else of it, to look at them."""
    tensors, _ = _read(path)
    weights = _part(tensors, "learner")
    check_shapes(learner, weights, path)
    learner.load_state_dict(weights)
    if isinstance(learner.estimator, PersistentEstimator):
        learner.estimator.cache.restore(_part(tensors, CHAINS))


def load_model(path: Path, model: LatentVariableModel) -> None:
    """Takes the weights of the model alone from a state file."""
    tensors, _ = _read(path)
    weights = _part(_part(tensors, "learner"), "model", separator=".")
    check_shapes(model, weights, path)
    model.load_state_dict(weights)


def load_estimator(path: Path, estimator: Estimator) -> None:
    """Takes what the estimator has learned, such as baselines, from the state file of a run with the same method."""
    tensors, _ = _read(path)
    learned = _part(_part(tensors, "learner"), "estimator", separator=".")
    check_shapes(estimator, learned, path)
    estimator.load_state_dict(learned)


def read_chains(path: Path) -> dict[str, Tensor]:
    """What the state file of a run holds of its chains."""
    tensors, _ = _read(path)
    return _part(tensors, CHAINS)


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, object]]:
    tensors, notes = load_tensors(path)
    check_format(path, notes, FORMAT)
    return tensors, notes


def _part(
    tensors: Mapping[str, Tensor], part: str, device: torch.device | None = None, separator: str = ":"
) -> dict[str, Tensor]:
    start = f"{part}{separator}"
    found = {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
    return {name: tensor.to(device=device) for name, tensor in found.items()}
