"""Where a training stands: everything about it that is no tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from jsa.errors import UsageError
from jsa.records import from_record, to_record
from jsa.training.means import Means
from jsa.training.selection import LeadingEpochs, ValidatedEpoch

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
