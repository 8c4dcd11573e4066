"""Everything that determines a run, as dataclasses: the flags of ``jsa train`` and the content of config.json.

Nothing here needs torch. The field names are unique across the groups because the command line shows them flat.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from jsa.errors import UsageError, check_at_least
from jsa.models.presets import NetworkConfig, preset


@dataclass(frozen=True)
class DataConfig:
    """Where the data comes from and how an own table is divided."""

    data_dir: Path | None = None
    """Folder of data files that are not embedded; looked for in JSA_DATA_DIR or ~/.local/share/jsa otherwise."""
    valid_file: Path | None = None
    """Own validation rows, in a file of their own."""
    test_file: Path | None = None
    """Own test rows, in a file of their own."""
    valid_fraction: float = 0.1
    """Share of an own table's rows for validation where no file has them."""
    test_fraction: float = 0.1
    """Share of an own table's rows for the test where no file has them."""
    split_seed: int = 0
    """Seed of the division of an own table."""
    data_classes: int | None = None
    """Classes of categorical observations; the largest value plus one where not given."""


@dataclass(frozen=True)
class OptimizerConfig:
    """How the parameters follow the gradient."""

    optimizer: Literal["adam", "sgd"] = "adam"
    """Adam, or the plain steps of stochastic approximation."""
    learning_rate: float = 3e-4
    """The learning rate at the start."""
    schedule: Literal["constant", "cosine", "robbins-monro"] = "constant"
    """Constant; cosine to zero at the last step; or Robbins-Monro, a/(t + t0)^kappa."""
    schedule_offset: float = 1000.0
    """t0 of Robbins-Monro in steps; a is such that the first step has the learning rate."""
    schedule_exponent: float = 0.75
    """kappa of Robbins-Monro, above 1/2 and at most 1."""
    average_decay: float | None = None
    """Decay a step of an exponential moving average of the weights, which is then what is validated and tested."""
    non_finite: Literal["stop", "skip"] = "stop"
    """At a loss or gradient that is no finite number: stop with the state before it, or skip the batch and count it."""

    def __post_init__(self) -> None:
        # An infinite number could not be read back from config.json.
        if not 0 < self.learning_rate < float("inf"):
            raise UsageError(f"the learning rate must be positive and finite, not {self.learning_rate}")
        if not 0.5 < self.schedule_exponent <= 1:
            raise UsageError(
                f"Robbins-Monro steps converge for an exponent above 1/2 and at most 1, not {self.schedule_exponent}"
            )
        if not 0 < self.schedule_offset < float("inf"):
            raise UsageError(
                f"the offset of Robbins-Monro steps must be positive and finite, not {self.schedule_offset}"
            )
        if self.average_decay is not None and not 0 < self.average_decay < 1:
            raise UsageError(f"the decay of the weight average lies between 0 and 1, not {self.average_decay}")


@dataclass(frozen=True)
class StageConfig:
    """When chains begin to persist (methods with chains only)."""

    switch_epoch: int | None = None
    """Epochs of stage I, where chains start anew at each visit; 60 % of all epochs where not given, as in the paper."""
    switch_patience: int | None = None
    """Switch before that, as soon as this many validations in a row brought no better NLL."""

    def __post_init__(self) -> None:
        check_at_least(0, switch_epoch=self.switch_epoch)
        check_at_least(1, switch_patience=self.switch_patience)


@dataclass(frozen=True)
class ValidationConfig:
    """How the best epoch is found. Test rows select nothing."""

    validate_every: int = 5
    """Epochs between validations; the last epoch is always validated."""
    validation_samples: int = 100
    """Importance samples a row at a validation. Figures of different sample counts cannot be compared."""
    validation_rows: int | None = None
    """Validate on the first rows only; on all where not given."""
    stop_after: int | None = None
    """Stop early when this many validations in a row brought no better NLL; never where not given."""
    test_samples: int = 1000
    """Importance samples a row for the test NLL."""
    leading_epochs: int = 1
    """Where more than 1: validations only screen; so many leading epochs are scored again with test-samples."""
    followed_rows: int | None = None
    """Also follow the NLL of so many training and test rows, with test-samples, at each validation; they select
    nothing."""

    def __post_init__(self) -> None:
        check_at_least(1, **vars(self))


@dataclass(frozen=True)
class MachineConfig:
    """What the run uses of the machine."""

    device: str = "cpu"
    """Torch device of the model, for instance cuda."""
    threads: int | None = None
    """CPU threads; torch's own choice where not given. Results are the same to the bit only for equal threads."""
    mapped_chains: bool = False
    """Keep the chains in memory-mapped files of the run folder instead of in memory."""
    checkpoint_seconds: float = 30.0
    """Seconds between checkpoints of the whole state, from which --resume goes on. They change no result."""
    snapshot_every: int | None = None
    """Also keep the whole state of every so many epochs, for jsa variance; none where not given."""

    def __post_init__(self) -> None:
        if not 0 <= self.checkpoint_seconds < float("inf"):
            raise UsageError(f"the seconds between checkpoints are 0 or more and finite, not {self.checkpoint_seconds}")
        check_at_least(1, threads=self.threads, snapshot_every=self.snapshot_every)
        if self.snapshot_every is not None and self.mapped_chains:
            raise UsageError("snapshots hold the chains, which mapped chains keep elsewhere: leave out one of the two")


@dataclass(frozen=True)
class MethodConfig:
    """Options of the method; each takes some of them and has defaults of its own for those that are not given."""

    particles: int | None = None
    """Proposals or samples a row at a step; jsa list estimators tells how many a method has where not given."""
    temperature: float | None = None
    """Temperature of relaxed methods; where REBAR and RELAX start to learn theirs."""
    baseline: Literal["none", "running"] | None = None
    """Baseline of REINFORCE: none, or the running mean of the signal."""
    sleep: float | None = None
    """Share of the sleep phase in RWS: 0 as in the paper, 1 for sleep alone."""

    def __post_init__(self) -> None:
        check_at_least(1, particles=self.particles)
        if self.temperature is not None and not 0 < self.temperature < float("inf"):
            raise UsageError(f"a temperature is positive and finite, not {self.temperature}")

    @property
    def given(self) -> dict[str, object]:
        """The options that were given."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class TrainConfig:
    """Train a model and test it."""

    data: str = "mnist-static"
    """A dataset (see: jsa list data) or a file .npy, .npz, .csv or .tsv of 0/1 values, small integers or words."""
    model: str = "nonlinear"
    """A model (see: jsa list models); it sets the defaults of the network options."""
    estimator: str = "jsa"
    """A method (see: jsa list estimators)."""
    epochs: int = 20
    """Passes through the training rows."""
    seed: int = 0
    """Seed of everything random."""
    batch_size: int = 50
    """Rows a step."""
    scan: Literal["shuffle", "random"] = "shuffle"
    """Visit the rows in a new order every epoch, or by the paper's random scan: uniformly with replacement."""
    method: MethodConfig = field(default_factory=MethodConfig)
    dataset: DataConfig = field(default_factory=DataConfig)
    network: NetworkConfig = field(default_factory=lambda: preset("nonlinear"))
    optimization: OptimizerConfig = field(default_factory=OptimizerConfig)
    stages: StageConfig = field(default_factory=StageConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    machine: MachineConfig = field(default_factory=MachineConfig)

    def __post_init__(self) -> None:
        check_at_least(1, epochs=self.epochs, batch_size=self.batch_size)

    @property
    def anywhere(self) -> TrainConfig:
        """The same run, wherever its data is."""
        return replace(self, dataset=replace(self.dataset, data_dir=None))

    @property
    def switch_epoch(self) -> int:
        """The last epoch of stage I."""
        return round(0.6 * self.epochs) if self.stages.switch_epoch is None else self.stages.switch_epoch
