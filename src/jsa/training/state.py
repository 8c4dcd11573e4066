"""The state of a training in one file, from which it continues to the bit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from jsa.batch import Estimate
from jsa.errors import CheckpointError, JsaError, UsageError
from jsa.estimators import Estimator
from jsa.io.json_records import from_record, to_record
from jsa.io.tensor_files import load_tensors, save_tensors, unpacked
from jsa.io.weights import check_format, check_shapes
from jsa.learner import Learner
from jsa.model import LatentVariableModel
from jsa.training.finite_checks import refuse_non_finite_weights
from jsa.training.optimization import optimizer_tensors, restore_optimizer
from jsa.training.random_states import random_states, restore_random_states
from jsa.training.selection import LeadingEpochs

FORMAT = 6
EARLIER_FORMATS = {3: "0.1.0"}
EXTRA_STATE = "_extra_state"
"""The name that torch gives to what a module saves beside its tensors: the chains, for an estimator."""


class Means:
    """The means of the scalars of many steps, kept as tensors so that no step waits for a device.

    Attributes:
        sums: The sum of each scalar.
        steps: The number of steps.
    """

    def __init__(self, sums: Mapping[str, Tensor] | None = None, steps: int = 0) -> None:
        self.sums: dict[str, Tensor] = dict(sums or {})
        self.steps = steps

    def add(self, estimate: Estimate) -> None:
        """Add the scalars of a step."""
        self.steps += 1
        for name, value in {"objective": estimate.objective, **estimate.diagnostics}.items():
            self.sums[name] = self.sums[name] + value if name in self.sums else value.clone()

    def values(self) -> dict[str, float]:
        """Return the means since the beginning."""
        return {name: float(total) / self.steps for name, total in self.sums.items()}


@dataclass
class Progress:
    """Where a training stands between two steps.

    Attributes:
        epoch: The epoch, from 1.
        batches: The batches of the epoch that are done.
        step: The batches that are done in all; skipped ones count, because the schedule goes on.
        stage: The stage of the last step, 0 for a method without stages.
        skipped: The batches of the epoch that were skipped.
        skipped_in_a_row: The batches that were skipped since the last that was not.
        seconds: The duration of the training so far.
        training_seconds: The part of it that went into steps, not into validations.
        processor_seconds: The processor time of the steps, over all threads of the process.
        decoder_evaluations: The states that the steps passed through the joint density, counted for each row.
        metrics_bytes: The length of the metrics without the line of this epoch.
        finished: Whether the last epoch has ended.
        leading: The best epochs.
        ended: The figures of the epoch as JSON once it has ended; its files may not be published yet.
    """

    epoch: int = 1
    batches: int = 0
    step: int = 0
    stage: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    seconds: float = 0.0
    training_seconds: float = 0.0
    processor_seconds: float = 0.0
    decoder_evaluations: int = 0
    metrics_bytes: int = 0
    finished: bool = False
    leading: LeadingEpochs = field(default_factory=LeadingEpochs)
    ended: str | None = None

    @property
    def record(self) -> dict[str, object] | None:
        """The figures of the epoch, None before its end."""
        return None if self.ended is None else json.loads(self.ended)


class State:
    """Everything that a training changes, saved and loaded as one.

    Renaming the new file over the old one is the moment at which a checkpoint is made: whatever else the folder holds
    is made again from it if a crash comes in between.

    Args:
        learner: The model and its estimator.
        optimizer: The optimizer of both.
        average: The average of the model's weights, None without one.
        identity: What must be the same when the state is loaded, by name.
        kept: How many leading epochs to keep.
    """

    def __init__(
        self,
        learner: Learner,
        optimizer: torch.optim.Optimizer,
        average: AveragedModel | None = None,
        identity: Mapping[str, object] | None = None,
        kept: int = 1,
    ) -> None:
        self.progress = Progress(leading=LeadingEpochs(kept))
        self.means = Means()
        self.learner = learner
        self.optimizer = optimizer
        self.average = average
        self.identity = {} if identity is None else dict(identity)

    @property
    def device(self) -> torch.device:
        """Where the training runs."""
        return next(self.learner.parameters()).device

    @property
    def evaluated(self) -> LatentVariableModel:
        """The model that is validated and tested: the averaged one, if there is an average."""
        return self.learner.model if self.average is None else cast(LatentVariableModel, self.average.module)

    def next_epoch(self, metrics_bytes: int) -> None:
        """Go to the beginning of the next epoch, once everything about this one is published."""
        at = self.progress
        at.epoch += 1
        at.batches = at.skipped = 0
        at.metrics_bytes, at.ended = metrics_bytes, None
        self.means = Means()

    def save(self, path: Path) -> None:
        """Write the state, whole or not at all; one that is not finite is refused."""
        refuse_non_finite_weights(self.learner)
        parts: dict[str, Mapping[str, Tensor]] = {
            "learner": self.learner.state_dict(),
            "optimizer": optimizer_tensors(self.learner, self.optimizer),
            "average": {} if self.average is None else self.average.state_dict(),
            "random": random_states(self.device),
            "means": self.means.sums,
        }
        tensors = {f"{part}:{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
        notes = {
            "format": FORMAT,
            "identity": self.identity,
            "progress": to_record(self.progress),
            # In the order in which the figures stand in the metrics.
            "means": {"steps": self.means.steps, "names": list(self.means.sums)},
        }
        save_tensors(path, tensors, notes)

    def load(self, path: Path) -> None:
        """Put everything back to where it was when the state was written."""
        tensors, notes = _read(path)
        try:
            check_identity(self.identity, notes.get("identity"))
            self._take(path, tensors, notes)
        except JsaError as error:
            raise CheckpointError(f"the run cannot be continued from {path}: {error}") from error

    def _take(self, path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, object]) -> None:
        progress = _progress(notes.get("progress"))
        means = _means(notes.get("means"), _part(tensors, "means", self.device))
        weights = _part(tensors, "learner")
        check_shapes(self.learner, weights, path)
        self.learner.load_state_dict(weights)
        restore_optimizer(self.learner, self.optimizer, _part(tensors, "optimizer"))
        if self.average is not None:
            average = _part(tensors, "average")
            check_shapes(self.average, average, path)
            self.average.load_state_dict(average)
        restore_random_states(_part(tensors, "random"), self.device)
        self.progress, self.means = progress, means


def check_identity(expected: Mapping[str, object], found: object) -> None:
    """Refuse a state that was written under other settings or for other data."""
    if not isinstance(found, Mapping):
        raise UsageError("it does not say for which settings and data it was written: use another copy")
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name) or (name in expected) != (name in found):
            raise UsageError(
                f"{name} is {expected.get(name, 'unknown')} now and was {found.get(name, 'unknown')} when the "
                "checkpoint was written: give it back that value, or begin another run"
            )


def load_learner(path: Path, learner: Learner) -> None:
    """Load the weights, the chains and their stage from a state file, and nothing else of it."""
    tensors, _ = _read(path)
    weights = _part(tensors, "learner")
    check_shapes(learner, weights, path)
    learner.load_state_dict(weights)


def load_model(path: Path, model: LatentVariableModel) -> None:
    """Load the weights of the model alone from a state file."""
    tensors, _ = _read(path)
    weights = _part(_part(tensors, "learner"), "model", separator=".")
    check_shapes(model, weights, path)
    model.load_state_dict(weights)


def load_estimator(path: Path, estimator: Estimator) -> None:
    """Load what the estimator has learned, such as baselines, from the state file of a run with the same method.

    Chains stay as they are.
    """
    tensors, _ = _read(path)
    learned = _part(_part(tensors, "learner"), "estimator", separator=".")
    check_shapes(estimator, learned, path)
    own = {name: value for name, value in estimator.state_dict().items() if name == EXTRA_STATE}
    estimator.load_state_dict({**learned, **own})


def read_chains(path: Path) -> dict[str, Tensor]:
    """Return what a state file holds of the chains, nothing for a method without chains."""
    tensors, _ = _read(path)
    content = tensors.get(f"learner:estimator.{EXTRA_STATE}")
    return {} if content is None else unpacked(content)


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, object]]:
    tensors, notes = load_tensors(path)
    check_format(path, notes, FORMAT, EARLIER_FORMATS)
    return tensors, notes


def _progress(notes: object) -> Progress:
    progress = from_record(Progress, notes, "the progress", complete=True)
    try:
        record = progress.record or {}
    except ValueError:
        record = None
    if not isinstance(record, dict) or (progress.ended is not None and "epoch" not in record):
        raise UsageError("the figures of its last epoch are no record: use another copy")
    return progress


@dataclass(frozen=True)
class _MeansRecord:
    """What the state file holds of the means beside their sums."""

    steps: int
    names: tuple[str, ...]


def _means(notes: object, sums: Mapping[str, Tensor]) -> Means:
    record = from_record(_MeansRecord, notes, "the means")
    if set(record.names) != set(sums):
        raise UsageError("the figures of its epoch are not all there: use another copy")
    return Means({name: sums[name] for name in record.names}, record.steps)


def _part(
    tensors: Mapping[str, Tensor], part: str, device: torch.device | None = None, separator: str = ":"
) -> dict[str, Tensor]:
    start = f"{part}{separator}"
    found = {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
    return {name: tensor.to(device=device) for name, tensor in found.items()}
