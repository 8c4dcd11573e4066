"""From a configuration of the command line to the task of a run, and from a run folder back to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from jsa.chains import ChainCache
from jsa.chains.database import FILE_NAME, DatabaseStorage
from jsa.data import Splits, load
from jsa.data.loading import exists, is_table
from jsa.data.schema import Schema
from jsa.errors import DataError, UsageError
from jsa.estimators import Estimator
from jsa.estimators.registry import check_options
from jsa.io.home_folder import expanded
from jsa.latent import Layer
from jsa.model import LatentVariableModel
from jsa.models.belief_network import BeliefNetwork
from jsa.models.presets import NetworkConfig
from jsa.models.registry import build_model
from jsa.models.structured_prediction import StructuredPrediction
from jsa.runs.config import RunConfig
from jsa.runs.feasibility import refuse_large_model
from jsa.runs.folder import RunFolder, refuse_existing, unused
from jsa.runs.identity import RunIdentity
from jsa.runs.method import Method
from jsa.runs.rows import RunRows
from jsa.runs.task import Task, begin, check_device, go_on
from jsa.training.signals import StopRequest
from jsa.training.state import read_chains

MakeModel = Callable[[Schema], LatentVariableModel]
"""Makes an own model for rows of these columns."""


@dataclass(frozen=True)
class Own:
    """What a configuration of the command line names and cannot make.

    Attributes:
        model: Makes the own model, None for a model of the library.
        estimator: The class of the own method, None for a method of the library.
    """

    model: MakeModel | None = None
    estimator: type[Estimator] | None = None


NOTHING = Own()


def train(config: RunConfig, out: Path | None = None, stop: StopRequest | None = None, own: Own = NOTHING) -> RunFolder:
    """Make a run of the command line: train, test at the best epoch, and draw.

    Args:
        config: The configuration.
        out: The run folder, a new one in ``runs`` where not given. It is made once data and model are found good.
        stop: A request to stop; if one is given, it listens to Ctrl-C and SIGTERM while the run has something to keep.
        own: The own model and the own method that the configuration names.
    """
    if out is not None:
        refuse_existing(out)
    method = _method(config, own)
    splits = load_splits(config)
    model = configured_model(config, splits.schema, own)
    names = (Path(splits.name).stem, config.model.rpartition(":")[2], config.estimator.rpartition(":")[2])
    path = out or unused(Path("runs") / f"{'-'.join(names)}-seed{config.seed}")
    return begin(Task(config, RunRows.of_splits(splits), model, method), path, stop)


@dataclass(frozen=True)
class Changes:
    """Settings that may change when a run continues; None leaves one as it was."""

    learning_rate: float | None = None
    non_finite: Literal["stop", "skip"] | None = None
    memory_limit: float | None = None

    def applied(self, config: RunConfig) -> RunConfig:
        """Return the configuration with these settings."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        machine = {name: given.pop(name) for name in ("memory_limit",) if name in given}
        return replace(
            config,
            optimization=replace(config.optimization, **given),
            machine=replace(config.machine, **machine),
        )


def resume(
    path: Path,
    changes: Changes | None = None,
    stop: StopRequest | None = None,
    data_dir: Path | None = None,
    own: Own = NOTHING,
) -> RunFolder:
    """Continue a run of the command line; a finished one is left as it is.

    Args:
        path: The run folder.
        changes: The settings that change from here on.
        stop: As for ``train``.
        data_dir: Where the data is, if not where it was.
        own: The own model and the own method that the run names.
    """
    folder = RunFolder.open(path)
    # Whoever holds the folder removes the lock that a killed process left behind.
    with folder.in_use():
        if folder.finished:
            return folder
    config = folder.read_config() if changes is None else changes.applied(folder.read_config())
    if config.has_own_rows:
        raise UsageError(f"{path} learns from rows that only its script has: continue it with {folder.continue_with}")
    method = _method(config, own)
    # A run without a state begins again, and may do so with a table that was mended.
    splits = load_splits_again(config, folder, data_dir, may_differ=not folder.state.is_file())
    model = configured_model(config, splits.schema, own)
    return go_on(Task(config, RunRows.of_splits(splits), model, method), folder, stop)


def _method(config: RunConfig, own: Own) -> Method:
    """Return the method, and refuse what can be refused before any data is read."""
    check_device(config.machine.device)
    if config.has_own_estimator and own.estimator is None:
        raise _own_is_missing("estimator", config.estimator)
    method = Method.of(own.estimator or config.estimator)
    check_options(method.kind, config.method.given)
    return method


def _own_is_missing(flag: str, name: str) -> UsageError:
    """Return the error for something of one's own that only a flag may name."""
    return UsageError(
        f"this run has the {flag} {name}, which no file may load: give it again by --{flag} package.module:name"
    )


def configured_model(config: RunConfig, schema: Schema, own: Own = NOTHING) -> LatentVariableModel:
    """Make the model of a run, initialized from its seed."""
    if (network := config.network) is None:
        if own.model is None:
            raise _own_is_missing("model", config.model)
        make: Callable[[], LatentVariableModel] = partial(own.model, schema)
    else:
        make = partial(make_model, network, schema)
    torch.manual_seed(config.seed)
    if network is not None:
        refuse_large_model(config, make)
    return make()


def load_splits(config: RunConfig) -> Splits:
    """Load the data of a run; a conditional model gets the first half of the columns as its context."""
    dataset = config.dataset
    splits = load(
        config.data,
        data_dir=dataset.data_dir,
        valid_file=dataset.valid_file,
        test_file=dataset.test_file,
        valid_fraction=dataset.valid_fraction,
        test_fraction=dataset.test_fraction,
        split_seed=dataset.split_seed,
        classes=dataset.data_classes,
        seed=config.seed,
    )
    if config.conditional:
        return splits.split_context(splits.schema.columns // 2)
    return splits


def load_splits_again(
    config: RunConfig, folder: RunFolder, data_dir: Path | None = None, *, may_differ: bool = False
) -> Splits:
    """Load the data of an earlier run, wherever this process was started.

    Args:
        config: The configuration of the run.
        folder: The run folder.
        data_dir: Where the data is, if not where it was.
        may_differ: Whether rows other than those of the run are accepted; otherwise they are refused.
    """
    known = RunIdentity.read(folder.path)
    here = with_data_dir(config if known is None else started_in(config, known.started_in), data_dir)
    splits = load_splits(here)
    if known is None or may_differ:
        return splits
    if (part := known.changed(splits.parts)) is not None:
        raise DataError(f"{_other_rows(here, part)}: give the run its data back, or its folder by --data-dir")
    return splits


def _other_rows(config: RunConfig, part: str) -> str:
    if part == "train":
        what = "table" if is_table(config.data) else "data"
        return f"{config.data} is not the {what} that the run was trained on"
    file, rows = (config.dataset.valid_file, "validation") if part == "valid" else (config.dataset.test_file, "test")
    return f"{file or config.data} does not hold the {rows} rows that the run had"


def observed_layer(shape: Schema) -> Layer:
    """Return the variables of an observation."""
    columns, classes = shape.observed_columns, shape.classes
    return Layer("bernoulli", columns) if classes == 2 else Layer("categorical", columns, classes)


def make_model(network: NetworkConfig, shape: Schema) -> BeliefNetwork | StructuredPrediction:
    """Make a model of the library for these rows."""
    observed = observed_layer(shape)
    values = shape.column_classes[shape.context_columns :]
    return build_model(network, observed, shape.context_width, indicators=shape.missing, values=values)


def take_chains(cache: ChainCache, config: RunConfig, folder: RunFolder, state: Path, index: Tensor) -> None:
    """Copy the chains of these rows from a state file of a run, if it has any, to a cache in memory.

    Chains on disk are read as they stood at that file, and stay as they are.
    """
    chains = read_chains(state) if state.is_file() else {}
    if not chains:
        return
    if not config.machine.chains_on_disk:
        cache.load_state_dict(chains)
        return
    stored = DatabaseStorage(folder.chains / FILE_NAME, cache.latent, cache.rows, read_only=True)
    stored.load_state_dict(chains)
    states, times = stored.read(index)
    there = times.nonzero().flatten()
    h = cache.latent.unpack(states[there], torch.float32)
    cache.write(index[there], h, moved=torch.ones(len(there), dtype=torch.bool))


def with_data_dir(config: RunConfig, data_dir: Path | None) -> RunConfig:
    """Return the configuration with another data folder, if one is given, and with the tables of these names in it."""
    if data_dir is None:
        return config
    folder = expanded(data_dir)

    def moved(path: Path) -> Path:
        return folder / path.name if exists(folder / path.name) else path

    return _with_files(replace(config, dataset=replace(config.dataset, data_dir=data_dir)), moved)


def started_in(config: RunConfig, folder: Path) -> RunConfig:
    """Return the configuration of a run that was begun in this folder, with the paths of its files from here."""
    if folder == Path.cwd():
        return config

    def found(path: Path) -> Path:
        # The folder may be on another machine, or have been moved with everything in it.
        there = folder / expanded(path)
        return path if exists(path) and not exists(there) else there

    data_dir = config.dataset.data_dir
    dataset = config.dataset if data_dir is None else replace(config.dataset, data_dir=found(data_dir))
    return _with_files(replace(config, dataset=dataset), found)


def _with_files(config: RunConfig, where: Callable[[Path], Path]) -> RunConfig:
    """Return the configuration with its tables elsewhere."""
    valid, test = (
        None if file is None else where(file) for file in (config.dataset.valid_file, config.dataset.test_file)
    )
    data = str(where(Path(config.data))) if is_table(config.data) else config.data
    return replace(config, data=data, dataset=replace(config.dataset, valid_file=valid, test_file=test))
