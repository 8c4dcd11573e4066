"""Settings of a run: the flags of ``jsa train`` and the content of config.json. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from jsa.errors import UsageError, unknown_name
from jsa.io.json_records import from_record, to_record
from jsa.models.presets import NetworkConfig, preset
from jsa.ranges import Fraction, MemoryLimit, Ranged, Seed, Threads, real, whole
from jsa.training.config import TrainingConfig

OWN = ":"
"""Is in the name of an own model or method, between its module and its name there."""

OWN_ROWS = "own rows"
"""Stands for the name of the data if rows were given in Python."""


@dataclass(frozen=True)
class MethodConfig(Ranged):
    """Options of the method; each takes some of them and has its own defaults."""

    particles: Annotated[int | None, whole(1)] = None
    """Proposals or samples per row and step; jsa list estimators shows the default of each method."""
    temperature: Annotated[float | None, real(above=0, most=1000)] = None
    """Temperature of relaxed methods; REBAR and RELAX learn theirs from it."""
    baseline: Literal["none", "running"] | None = None
    """Baseline of REINFORCE: none, or the running mean of the signal."""
    sleep: Annotated[float | None, real(least=0, most=1)] = None
    """Share of the sleep phase in RWS: 0 as in the paper, 1 for sleep alone."""

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class DataConfig(Ranged):
    """Where the data comes from and how an own table is divided."""

    data_dir: Path | None = None
    """Folder of data files that are not embedded; JSA_DATA_DIR or ~/.local/share/jsa where not given."""
    valid_file: Path | None = None
    """Own validation rows, in a file of their own."""
    test_file: Path | None = None
    """Own test rows, in a file of their own."""
    valid_fraction: Fraction = 0.1
    """Share of an own table's rows for validation where no file has them."""
    test_fraction: Fraction = 0.1
    """Share of an own table's rows for the test where no file has them."""
    split_seed: Seed = 0
    """Seed of the division of an own table."""
    data_classes: Annotated[int | None, whole(2, 256)] = None
    """Classes of categorical observations; the largest value plus one where not given."""


@dataclass(frozen=True)
class Subject:
    """What is learned, from what, and by which method."""

    data: str = "mnist-static"
    """A dataset (see: jsa list data) or a file .npy, .npz, .csv or .tsv of 0/1 values, small integers or words."""
    model: str = "nonlinear"
    """A model (see: jsa list models), which sets the defaults of the network options; or package.module:factory for an
    own one, which is called with the jsa.Schema of the rows."""
    estimator: str = "jsa"
    """A method (see: jsa list estimators); or package.module:Class for an own one."""
    method: MethodConfig = field(default_factory=MethodConfig)
    dataset: DataConfig = field(default_factory=DataConfig)
    network: NetworkConfig | None = field(default_factory=lambda: preset("nonlinear"))


@dataclass(frozen=True)
class MachineConfig(Ranged):
    """Hardware settings."""

    device: str = "cpu"
    """Torch device of the model, for instance cuda."""
    threads: Threads = None
    """CPU threads; torch's own choice where not given. Results are the same to the bit only for equal threads."""
    memory_limit: MemoryLimit = None
    """Memory that the program may take, in gigabytes: what cannot fit is refused before it begins. Nine tenths of what
    is free where not given."""
    chains_on_disk: bool = False
    """Keep the chains in a file of the run folder instead of in memory."""


@dataclass(frozen=True)
class OutputConfig(Ranged):
    """What a run shows. It changes no result."""

    progress: bool = True
    """Whether the progress of the training is shown on standard error."""
    pictures: bool = True
    """Whether samples, reconstructions and curves are drawn after training."""


@dataclass(frozen=True)
class RunConfig(TrainingConfig, Subject):
    """Everything that determines a run."""

    machine: MachineConfig = field(default_factory=MachineConfig)
    output: OutputConfig = field(default_factory=OutputConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.checkpoints.snapshot_every is not None and self.machine.chains_on_disk:
            raise UsageError(
                "snapshots hold the chains, which chains on disk have in a file of their own: leave out one of the two"
            )

    @property
    def has_own_rows(self) -> bool:
        """Whether its rows were given in Python, so that no name or file leads to them."""
        return self.data == OWN_ROWS

    @property
    def has_own_model(self) -> bool:
        """Whether its model was given in Python or as package.module:factory."""
        return self.network is None

    @property
    def has_own_estimator(self) -> bool:
        """Whether its method is none of those of the library."""
        return OWN in self.estimator

    @property
    def conditional(self) -> bool:
        """Whether the second half of the columns is predicted from the first."""
        return self.network is not None and self.network.conditional

    @property
    def anywhere(self) -> RunConfig:
        """The same run, wherever its data is."""
        return replace(self, dataset=replace(self.dataset, data_dir=None))


GIVEN_OTHERWISE = {
    **dict.fromkeys(("data", "data_dir", "valid_file", "test_file", "data_classes"), "rows, valid and test"),
    **dict.fromkeys(("model", *(field.name for field in fields(NetworkConfig))), "model"),
    "estimator": "estimator",
}
"""Settings of the command line that are arguments of ``jsa.fit``: the arguments."""


def with_settings(config: RunConfig, given: Mapping[str, Any]) -> RunConfig:
    """Return a configuration with other values of some settings, whatever group they are in.

    >>> with_settings(RunConfig(), {"batch_size": 100, "learning_rate": 1e-3}).optimization.learning_rate
    0.001
    >>> with_settings(RunConfig(), {"batchsize": 100})
    Traceback (most recent call last):
    jsa.errors.UsageError: there is no setting 'batchsize': did you mean 'batch_size'? Known are: ...
    """
    left = dict(given)
    record = _filled(to_record(config), left)
    for name in left:
        raise unknown_name("setting", name, _names(record))
    return from_record(RunConfig, record)


def _filled(record: Mapping[str, Any], left: dict[str, Any]) -> dict[str, Any]:
    """Move values to their fields; no two fields of any groups share a name."""
    return {
        name: _filled(value, left) if isinstance(value, Mapping) else to_record(left.pop(name, value))
        for name, value in record.items()
    }


def _names(record: Mapping[str, Any]) -> Iterator[str]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _names(value)
        else:
            yield name
