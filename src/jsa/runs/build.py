"""From a configuration to the parts of a run, and from a run folder back to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor

from jsa.chains import ChainCache
from jsa.chains.database import FILE_NAME, DatabaseStorage
from jsa.data import Dataset, Splits, load
from jsa.data.loading import exists, is_table
from jsa.data.schema import Schema
from jsa.errors import DataError, UsageError
from jsa.estimators import Estimator
from jsa.estimators.registry import build_estimator
from jsa.io.home_folder import expanded
from jsa.latent import Layer
from jsa.models.belief_network import BeliefNetwork
from jsa.models.registry import build_model
from jsa.models.structured_prediction import StructuredPrediction
from jsa.runs.config import RunConfig
from jsa.runs.folder import RunFolder
from jsa.runs.identity import DataIdentity
from jsa.training.state import read_chains
from jsa.training.weights import load_weights

Model = BeliefNetwork | StructuredPrediction


@dataclass(frozen=True)
class OpenedRun:
    """A run that was opened from its folder.

    Attributes:
        folder: The run folder.
        config: The configuration of the run.
        model: The model with the weights of a checkpoint.
        notes: The notes beside these weights.
        shape: What a row of its data is made of.
        read_splits: What reads its data, once.
    """

    folder: RunFolder
    config: RunConfig
    model: Model
    notes: dict[str, object]
    shape: Schema
    read_splits: Callable[[], Splits]

    @property
    def splits(self) -> Splits:
        """Its data, read at first use: sampling needs none."""
        return self.read_splits()


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
    if config.network.conditional:
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
    known = DataIdentity.read(folder.path)
    here = with_data_dir(config if known is None else started_in(config, known.started_in), data_dir)
    splits = load_splits(here)
    if known is None or may_differ:
        return splits
    if (part := known.changed(splits)) is not None:
        raise DataError(f"{_other_rows(here, part)}: give the run its data back, or its folder by --data-dir")
    return replace(splits, notes=(*splits.notes, *known.notes))


def _other_rows(config: RunConfig, part: str) -> str:
    if part == "train":
        what = "table" if is_table(config.data) else "data"
        return f"{config.data} is not the {what} that the run was trained on"
    file, rows = (config.dataset.valid_file, "validation") if part == "valid" else (config.dataset.test_file, "test")
    return f"{file or config.data} does not hold the {rows} rows that the run had"


def make_model(config: RunConfig, shape: Schema) -> Model:
    """Make the model of a run, initialized from its seed."""
    columns, classes = shape.observed_columns, shape.classes
    observed = Layer("bernoulli", columns) if classes == 2 else Layer("categorical", columns, classes)
    torch.manual_seed(config.seed)
    values = shape.column_classes[shape.context_columns :]
    return build_model(config.network, observed, shape.context_width, indicators=shape.missing, values=values)


def make_estimator(config: RunConfig, model: Model, rows: Dataset, folder: RunFolder) -> Estimator:
    """Make the estimator of a run, with chains for its training rows if it keeps chains."""
    return build_estimator(
        config.estimator,
        model.latent,
        inputs=rows.schema.observed_width + rows.schema.context_width,
        rows=len(rows),
        options=config.method.given,
        cache_folder=folder.chains if config.machine.chains_on_disk else None,
    )


def open_run(path: Path, checkpoint: str = "best", data_dir: Path | None = None) -> OpenedRun:
    """Open a run with the best or last weights of its model.

    Args:
        path: The run folder.
        checkpoint: ``best`` or ``last``.
        data_dir: Where the data is, if not where it was.
    """
    if checkpoint not in ("best", "last"):
        raise UsageError(f"the checkpoint is best or last, not '{checkpoint}'")
    folder = RunFolder.open(path)
    config = folder.read_config()
    read_splits = cache(partial(load_splits_again, config, folder, data_dir))
    known = DataIdentity.read(folder.path)
    shape = read_splits().schema if known is None else known.shape
    model = make_model(config, shape)
    notes = load_weights(model, folder.best if checkpoint == "best" else folder.last)
    return OpenedRun(folder, config, model.eval(), notes, shape, read_splits)


def take_chains(cache: ChainCache, opened: OpenedRun, state: Path, index: Tensor) -> None:
    """Copy the chains of these rows from a state file of a run, if it has any, to a cache in memory.

    Chains on disk are read as they stood at that file, and stay as they are.
    """
    chains = read_chains(state) if state.is_file() else {}
    if not chains:
        return
    if not opened.config.machine.chains_on_disk:
        cache.load_state_dict(chains)
        return
    stored = DatabaseStorage(opened.folder.chains / FILE_NAME, cache.latent, cache.rows, read_only=True)
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
