"""The state of a training in one file, from which it goes on to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from jsa.batch import Estimate
from jsa.errors import CheckpointError, JsaError, UsageError
from jsa.estimators import Estimator
from jsa.io.json_records import from_record, to_record
from jsa.io.tensor_files import load_tensors, save_tensors
from jsa.learner import Learner
from jsa.model import LatentVariableModel
from jsa.runs.identity import check_identity
from jsa.training.finite_checks import refuse_non_finite_weights
from jsa.training.optimization import optimizer_tensors, restore_optimizer
from jsa.training.selection import LeadingEpochs, ValidatedEpoch
from jsa.training.weights import check_format, check_shapes


class Means:
    """The means of the scalars of many steps, kept as tensors so that no step waits for a device.

    Attributes:
        sums: The sum of each scalar so far.
        steps: Over how many steps.
    """

    def __init__(self, sums: Mapping[str, Tensor] | None = None, steps: int = 0) -> None:
        self.sums: dict[str, Tensor] = dict(sums or {})
        self.steps = steps

    def add(self, estimate: Estimate) -> None:
        """Takes the scalars of a step."""
        self.steps += 1
        for name, value in {"objective": estimate.objective, **estimate.diagnostics}.items():
            self.sums[name] = self.sums[name] + value if name in self.sums else value.clone()

    def values(self) -> dict[str, float]:
        """The means since the beginning."""
        return {name: float(total) / self.steps for name, total in self.sums.items()}


PLAIN = (
    *("epoch", "batches", "step", "skipped", "skipped_in_a_row"),
    *("seconds", "training_seconds", "processor_seconds", "decoder_evaluations", "metrics_bytes", "finished"),
)


@dataclass(frozen=True)
class _Record:
    """What of a standing is plain numbers, as the state file has it."""

    epoch: int
    batches: int
    step: int
    skipped: int
    skipped_in_a_row: int
    seconds: float
    training_seconds: float
    processor_seconds: float
    decoder_evaluations: int
    metrics_bytes: int
    finished: bool
    leading_epochs: tuple[int, ...]
    leading_nlls: tuple[float, ...]
    validations_without_gain: int
    mean_steps: int
    mean_names: tuple[str, ...]


@dataclass
class Standing:
    """Where a training stands between two steps.

    Attributes:
        epoch: The epoch, from 1.
        batches: How many batches of it are done.
        step: How many batches are done in all; those that were skipped count, for the schedule goes on.
        skipped: How many batches of the epoch were skipped.
        skipped_in_a_row: How many batches were skipped since the last that was not.
        seconds: How long the training took so far.
        training_seconds: How much of it went into steps, not into validations.
        processor_seconds: The processor time of the steps, over all threads of the process.
        decoder_evaluations: How many states the steps passed through the joint density, each row for itself.
        metrics_bytes: The length of the metrics without the line of this epoch.
        finished: Whether the last epoch has ended.
        leading: The best epochs.
        means: The figures of the epoch so far.
        ended: The figures of the epoch once it has ended. Its weights and its line of metrics may not be written yet.
    """

    epoch: int = 1
    batches: int = 0
    step: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    seconds: float = 0.0
    training_seconds: float = 0.0
    processor_seconds: float = 0.0
    decoder_evaluations: int = 0
    metrics_bytes: int = 0
    finished: bool = False
    leading: LeadingEpochs = field(default_factory=LeadingEpochs)
    means: Means = field(default_factory=Means)
    ended: dict[str, object] | None = None

    def next_epoch(self, metrics_bytes: int) -> None:
        """Goes to the beginning of the next epoch, when everything about this one is written."""
        self.epoch += 1
        self.batches = self.skipped = 0
        self.metrics_bytes = metrics_bytes
        self.means = Means()
        self.ended = None

    def to_notes(self) -> dict[str, object]:
        """What JSON can hold of it; the sums of the means are tensors and stand elsewhere."""
        plain = {name: getattr(self, name) for name in PLAIN}
        leading = self.leading
        record = _Record(
            **plain,
            leading_epochs=tuple(found.epoch for found in leading.epochs),
            leading_nlls=tuple(found.nll for found in leading.epochs),
            validations_without_gain=leading.validations_without_gain,
            mean_steps=self.means.steps,
            # In the order in which the figures stand in the metrics.
            mean_names=tuple(self.means.sums),
        )
        # Pairs keep the order, which the file does not keep for the fields of an object.
        ended = None if self.ended is None else [[name, value] for name, value in self.ended.items()]
        return {**to_record(record), "ended": ended}

    @classmethod
    def from_notes(cls, notes: object, sums: Mapping[str, Tensor]) -> Standing:
        """The standing that such notes describe, with the sums of its means by name."""
        if not isinstance(notes, Mapping):
            raise UsageError("it does not say where the training stands")
        pairs = notes.get("ended")
        try:
            ended = None if pairs is None else dict(pairs)
        except (TypeError, ValueError):
            raise UsageError("the figures of its last epoch are no record") from None
        record = from_record(_Record, {name: value for name, value in notes.items() if name != "ended"})
        if set(record.mean_names) != set(sums):
            raise UsageError("the figures of its epoch are not all there")
        if len(record.leading_epochs) != len(record.leading_nlls):
            raise UsageError("its leading epochs and their figures are not equally many")
        leading = [ValidatedEpoch(*found) for found in zip(record.leading_nlls, record.leading_epochs, strict=True)]
        return cls(
            **{name: getattr(record, name) for name in PLAIN},
            leading=LeadingEpochs(1, leading, record.validations_without_gain),
            means=Means({name: sums[name] for name in record.mean_names}, record.mean_steps),
            ended=ended,
        )


def random_states(device: torch.device) -> dict[str, Tensor]:
    """The state of the generators that a training on this device draws from."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        states["mps"] = torch.mps.get_rng_state()
    return states


def restore_random_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Puts the generators of a device back to a state."""
    for name, present in random_states(device).items():
        if name not in states or states[name].shape != present.shape:
            raise CheckpointError(
                f"the random state of {name} is missing or that of another version of torch: continue with the version "
                "and the device that the run began with"
            )
    try:
        torch.set_rng_state(states["cpu"])
        if device.type == "cuda":
            torch.cuda.set_rng_state(states["cuda"], device)
        elif device.type == "mps":
            torch.mps.set_rng_state(states["mps"])
    except (RuntimeError, TypeError) as error:
        raise CheckpointError(f"the random state of the checkpoint is damaged ({error}): use another copy") from error


FORMAT = 3
CHAINS = "chains"


class TrainingState:
    """Everything that a training changes, to be written and read as one.

    Renaming the new file over the old one is the moment at which a checkpoint is made: whatever else the run folder
    holds is made again from it where a crash came in between.

    Args:
        learner: The model and its estimator.
        optimizer: The optimizer of both.
        average: The average of the model's weights, where there is one.
        device: Where the training runs.
        identity: What must be the same when the state is read.
    """

    def __init__(
        self,
        learner: Learner,
        optimizer: torch.optim.Optimizer,
        average: AveragedModel | None,
        device: torch.device,
        identity: Mapping[str, object],
    ) -> None:
        self.standing = Standing()
        self._learner = learner
        self._optimizer = optimizer
        self._average = average
        self._device = device
        self._identity = identity

    def save(self, path: Path) -> None:
        """Writes the state, whole or not at all; one that is not finite is refused."""
        refuse_non_finite_weights(self._learner)
        chains = self._learner.estimator.chains
        staged = {} if chains is None else chains.state_dict()
        parts: dict[str, Mapping[str, Tensor]] = {
            "learner": self._learner.state_dict(),
            "optimizer": optimizer_tensors(self._learner, self._optimizer),
            "average": {} if self._average is None else self._average.state_dict(),
            "random": random_states(self._device),
            "means": self.standing.means.sums,
            CHAINS: staged,
        }
        tensors = {f"{part}:{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
        notes = {
            "format": FORMAT,
            "identity": self._identity,
            "standing": self.standing.to_notes(),
        }
        save_tensors(path, tensors, notes)
        if chains is not None:
            chains.commit(staged)

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
        restore_optimizer(self._learner, self._optimizer, _part(tensors, "optimizer"))
        if self._average is not None:
            average = _part(tensors, "average")
            check_shapes(self._average, average, path)
            self._average.load_state_dict(average)
        if self._learner.estimator.chains is not None:
            self._learner.estimator.chains.load_state_dict(_part(tensors, CHAINS))
        restore_random_states(_part(tensors, "random"), self._device)
        self.standing = standing


def load_learner(path: Path, learner: Learner) -> None:
    """Takes the weights, the chains and their stage from a state file and nothing else of it, to look at them."""
    tensors, _ = _read(path)
    weights = _part(tensors, "learner")
    check_shapes(learner, weights, path)
    learner.load_state_dict(weights)
    if learner.estimator.chains is not None:
        learner.estimator.chains.load_state_dict(_part(tensors, CHAINS))


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
