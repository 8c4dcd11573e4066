"""From a configuration to the parts of a run, and from a run folder back to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from jsa.cache import ChainCache
from jsa.configuration import TrainConfig
from jsa.data import Dataset, Splits, load
from jsa.errors import UsageError
from jsa.estimators import Estimator
from jsa.estimators.build import build_estimator
from jsa.latent import Layer
from jsa.models.belief_network import BeliefNetwork
from jsa.models.build import build_model
from jsa.models.structured_prediction import StructuredPrediction
from jsa.training.checkpoint import load_weights
from jsa.training.folder import RunFolder
from jsa.training.state import read_chains

Model = BeliefNetwork | StructuredPrediction


@dataclass(frozen=True)
class OpenedRun:
    """A run as it is found in its folder."""

    folder: RunFolder
    config: TrainConfig
    model: Model
    splits: Splits
    notes: dict[str, object]


def load_splits(config: TrainConfig) -> Splits:
    """The data of a run; a conditional model gets the first half of the columns as its context."""
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
        return splits.split_context(splits.train.observed_columns // 2)
    return splits


def make_model(config: TrainConfig, splits: Splits) -> Model:
    """The model of a run, initialised from its seed."""
    columns, classes = splits.train.observed_columns, splits.classes
    observed = Layer("bernoulli", columns) if classes == 2 else Layer("categorical", columns, classes)
    torch.manual_seed(config.seed)
    return build_model(config.network, observed, splits.train.context_width)


def make_estimator(config: TrainConfig, model: Model, rows: Dataset, folder: RunFolder) -> Estimator:
    """The estimator of a run, with chains for its training rows where it has chains."""
    return build_estimator(
        config.estimator,
        model.latent,
        inputs=rows.observed_width + rows.context_width,
        rows=len(rows),
        options=config.method.given,
        cache_folder=folder.mapped_chains if config.machine.mapped_chains else None,
        device=config.machine.device,
    )


def open_run(path: Path, checkpoint: str = "best", data_dir: Path | None = None) -> OpenedRun:
    """The model of a run with its best or last weights, and its data.

    Args:
        path: The run folder.
        checkpoint: ``best`` or ``last``.
        data_dir: Where the data is, if not where it was.
    """
    folder = RunFolder.open(path)
    config = folder.read_config()
    splits = load_splits(with_data_dir(config, data_dir))
    model = make_model(config, splits)
    if checkpoint not in ("best", "last"):
        raise UsageError(f"the checkpoint is best or last, not '{checkpoint}'")
    notes = load_weights(model, folder.best if checkpoint == "best" else folder.last)
    return OpenedRun(folder, config, model.eval(), splits, notes)


def take_chains(cache: ChainCache, opened: OpenedRun, state: Path, index: Tensor) -> None:
    """Gives a cache in memory the chains that a state file of a run has of these rows; a run without chains has none.

    Memory-mapped chains are brought to the checkpoint of that file, as a continued run would, and read; their folder is
    held meanwhile.
    """
    chains = read_chains(state) if state.is_file() else {}
    if not chains:
        return
    if not opened.config.machine.mapped_chains:
        cache.restore(chains)
        return
    with opened.folder.in_use():
        mapped = ChainCache(cache.latent, cache.rows, opened.folder.mapped_chains)
        mapped.restore(chains)
        states, visited = mapped.read(index)
    there = visited.nonzero().flatten()
    cache.write(index[there], states[there], moved=torch.ones(len(there), dtype=torch.bool))


def with_data_dir(config: TrainConfig, data_dir: Path | None) -> TrainConfig:
    """The configuration with another data folder, where one is given."""
    if data_dir is None:
        return config
    return replace(config, dataset=replace(config.dataset, data_dir=data_dir))
