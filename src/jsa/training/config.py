"""Settings of a training. Nothing here needs torch.

The field names are unique across the groups because the command line shows them flat.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, Self

from jsa.ranges import Ranged, Seed, real, whole


@dataclass(frozen=True)
class OptimizerConfig(Ranged):
    """Optimizer, learning rate and weight average."""

    optimizer: Literal["adam", "sgd"] = "adam"
    """Adam, or the plain steps of stochastic approximation."""
    learning_rate: Annotated[float, real(above=0, most=10)] = 3e-4
    """Learning rate at the start."""
    schedule: Literal["constant", "cosine", "robbins-monro"] = "constant"
    """Constant; cosine to zero at the last step; or Robbins-Monro, which falls as 1/(t + 1000)^0.75."""
    average_decay: Annotated[float | None, real(above=0, below=1)] = None
    """Decay per step of an exponential moving average of the weights, which is then what is validated and tested."""
    non_finite: Literal["stop", "skip"] = "stop"
    """What to do at a loss or gradient that is not finite: stop the run, or skip the batch and count it."""


@dataclass(frozen=True)
class StageConfig(Ranged):
    """When chains begin to persist (methods with chains only)."""

    switch_epoch: Annotated[int | None, whole(0)] = None
    """Epochs of stage I, where chains start anew at each visit; 60 % of all epochs where not given, as in the paper."""
    switch_patience: Annotated[int | None, whole(1)] = None
    """Switch before that, as soon as this many validations in a row brought no better NLL."""


@dataclass(frozen=True)
class ValidationConfig(Ranged):
    """How the best epoch is found. Test rows select nothing."""

    validate_every: Annotated[int, whole(1)] = 5
    """Epochs between validations; the last epoch is always validated."""
    validation_samples: Annotated[int, whole(1)] = 100
    """Importance samples per row at a validation. Figures of different sample counts cannot be compared."""
    validation_rows: Annotated[int | None, whole(1)] = None
    """Validate on only this many rows, spread evenly; on all where not given."""
    stop_after: Annotated[int | None, whole(1)] = None
    """Stop early when this many validations in a row brought no better NLL; never where not given."""
    test_samples: Annotated[int, whole(1)] = 1000
    """Importance samples per row for the test NLL."""
    leading_epochs: Annotated[int, whole(1)] = 1
    """Re-score the K best epochs with test-samples and test the best of them; with 1, the validations alone decide."""
    followed_rows: Annotated[int | None, whole(1)] = None
    """Also follow the NLL of this many training and test rows, spread evenly, with test-samples, at each validation;
    they select nothing."""


@dataclass(frozen=True)
class CheckpointConfig(Ranged):
    """When the state of the training is saved."""

    checkpoint_seconds: Annotated[float, real(least=0)] = 30.0
    """Seconds between checkpoints of the whole state, from which a stopped run continues. They change no result."""
    snapshot_every: Annotated[int | None, whole(1)] = None
    """Also keep the whole state of every N-th epoch, for jsa variance; none where not given."""


@dataclass(frozen=True)
class TrainingConfig(Ranged):
    """How a learner is trained on rows, whatever they are."""

    epochs: Annotated[int, whole(1)] = 20
    """Passes through the training rows."""
    steps: Annotated[int | None, whole(1)] = None
    """Steps instead of epochs: as many epochs as they need, the last of which ends with them."""
    seed: Seed = 0
    """Seed of everything random."""
    batch_size: Annotated[int, whole(1)] = 50
    """Rows per step."""
    scan: Literal["shuffle", "random"] = "shuffle"
    """Visit the rows in a new order every epoch, or by the paper's random scan: uniformly with replacement."""
    optimization: OptimizerConfig = field(default_factory=OptimizerConfig)
    stages: StageConfig = field(default_factory=StageConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)

    def with_steps(self, steps_per_epoch: int) -> Self:
        """Return the same settings with the epochs that the steps need, if steps are given."""
        return self if self.steps is None else replace(self, epochs=-(-self.steps // steps_per_epoch))

    @property
    def switch_epoch(self) -> int:
        """The last epoch of stage I."""
        return round(0.6 * self.epochs) if self.stages.switch_epoch is None else self.stages.switch_epoch

    @property
    def with_switch_epoch(self) -> Self:
        """The same settings with the last epoch of stage I written out."""
        return replace(self, stages=replace(self.stages, switch_epoch=self.switch_epoch))
