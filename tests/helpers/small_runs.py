"""Trainings that take a moment, and what is left of them in their folders."""

from __future__ import annotations

import dataclasses
import json
import signal
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TypedDict, Unpack

import torch
from torch import Tensor

from jsa import BeliefNetwork, Estimator, LatentSpace, Layer, Learner
from jsa.data import IndexedDataset, Scan
from jsa.estimators.registry import build_estimator
from jsa.evaluation.rows import Subset
from jsa.io.tensor_files import load_tensors, unpacked
from jsa.runs.config import MachineConfig, MethodConfig, RunConfig
from jsa.runs.folder import RunFolder
from jsa.runs.identity import described, identity, rows_identity
from jsa.training.callbacks import Callback
from jsa.training.config import CheckpointConfig, OptimizerConfig, StageConfig, ValidationConfig
from jsa.training.loop import TrainingRows, train
from jsa.training.selection import LeadingEpochs
from jsa.training.signals import InterruptedRunError, StopRequest
from jsa.training.state import State

CLASSES_ONLY = ("arsm",)


class Quiet(Callback):
    """Remembers the records and notes."""

    def __init__(self) -> None:
        self.records: list[Mapping[str, object]] = []
        self.notes: list[str] = []

    def epoch(self, state: State, record: Mapping[str, object]) -> None:
        self.records.append(dict(record))

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)


class Stopping(Quiet):
    """Asks to stop at a step, or in the validation after it."""

    def __init__(self, stop: StopRequest, step: int, *, in_validation: bool = False) -> None:
        super().__init__()
        self.stop, self.wanted, self.in_validation = stop, step, in_validation

    def step(self, state: State) -> None:
        if state.progress.step == self.wanted and not self.in_validation:
            self.stop.number = signal.SIGTERM

    def validating(self, done: int, rows: int) -> None:
        if self.in_validation:
            self.stop.number = signal.SIGINT


class DeadError(BaseException):
    """Ends a training without any farewell, as a kill would."""


class Dying(Stopping):
    """Ends the training at a step, after the state of the step before was written."""

    def step(self, state: State) -> None:
        super().step(state)
        if self.stop.number is not None:
            raise DeadError


def patterned(rows: int, seed: int) -> IndexedDataset:
    """Rows of 8 bits in two blocks that are all on or all off, with some bits turned."""
    generator = torch.Generator().manual_seed(seed)
    blocks = torch.randint(0, 2, (rows, 2), generator=generator, dtype=torch.uint8)
    turned = (torch.rand(rows, 8, generator=generator) < 0.05).to(torch.uint8)
    return IndexedDataset(blocks.repeat_interleave(4, dim=1) ^ turned)


class ConfigChanges(TypedDict, total=False):
    """What a test may set otherwise."""

    estimator: str
    method: MethodConfig
    epochs: int
    batch_size: int
    seed: int
    scan: Scan
    optimization: OptimizerConfig
    stages: StageConfig
    validation: ValidationConfig
    checkpoints: CheckpointConfig
    machine: MachineConfig


def small_config(**changes: Unpack[ConfigChanges]) -> RunConfig:
    config = RunConfig(
        epochs=6,
        batch_size=20,
        stages=StageConfig(switch_epoch=3),
        optimization=OptimizerConfig(learning_rate=0.02),
        validation=ValidationConfig(validate_every=2, validation_samples=50),
        machine=MachineConfig(threads=1),
    )
    return dataclasses.replace(config, **changes)


def small_model(seed: int = 0) -> BeliefNetwork:
    torch.manual_seed(seed)
    return BeliefNetwork(Layer("bernoulli", 8), LatentSpace.of(Layer("bernoulli", 3)), hidden=(6,))


def new_folder(path: Path, config: RunConfig) -> RunFolder:
    """A run folder with its configuration; one that is there already is taken as it is."""
    folder = RunFolder(path)
    if not folder.config.exists():
        folder.begin(config)
    return folder


def trained(
    path: Path,
    config: RunConfig,
    watcher: Quiet | None = None,
    stop: StopRequest | None = None,
    seed: int = 0,
) -> tuple[BeliefNetwork, LeadingEpochs, Estimator]:
    """Trains the method of the configuration in a folder, from wherever the folder stands.

    A training that goes on may build its parts from another seed: nothing of them may be left in the result.
    """
    rows = TrainingRows(patterned(100, seed=1), patterned(40, seed=2), followed(config))
    model = small_model(seed)
    if config.estimator in CLASSES_ONLY:
        torch.manual_seed(seed)
        model = BeliefNetwork(Layer("bernoulli", 8), LatentSpace.of(Layer("categorical", 2, classes=3)), hidden=(6,))
    folder = new_folder(path, config)
    chains = folder.chains if config.machine.chains_on_disk else None
    estimator = build_estimator(
        config.estimator,
        model.latent,
        inputs=8,
        rows=len(rows.train),
        options=config.method.given,
        cache_folder=chains,
    )
    callbacks = [] if watcher is None else [watcher]
    same = identity(config, rows_identity(rows.train), described(model))
    leading = train(Learner(model, estimator), rows, config, folder, callbacks, stop, same)
    return model, leading, estimator


def followed(config: RunConfig) -> dict[str, Subset]:
    count = config.validation.followed_rows
    return (
        {}
        if count is None
        else {"train": Subset.spread(patterned(100, 1), count), "test": Subset.spread(patterned(30, 3), 9)}
    )


def trained_in_pieces(path: Path, config: RunConfig, stops: list[int], watcher: type[Stopping] = Stopping) -> None:
    """The same training, stopped at these steps and continued by other objects."""
    for seed, step in enumerate(stops):
        stop = StopRequest()
        try:
            trained(path, config, watcher(stop, step), stop, seed)
        except (InterruptedRunError, DeadError):
            continue
        raise AssertionError(f"the training ended before step {step}")
    trained(path, config, seed=len(stops))


def remains(path: Path) -> dict[str, object]:
    """Everything that a training left, but for the time that it took: tensors as their bytes."""
    found: dict[str, object] = {}
    for file in sorted(path.rglob("*.safetensors")):
        name = str(file.relative_to(path).with_suffix(""))
        tensors, notes = load_tensors(file)
        if (chains := tensors.pop("learner:estimator._extra_state", None)) is not None:
            saved = unpacked(chains)
            # The generation of chains on disk counts the checkpoints, and has a random number.
            tensors |= {f"chains:{key}": saved[key] for key in saved.keys() - {"generation", "identity"}}
        found |= {f"{name} {key}": _bytes(tensor) for key, tensor in tensors.items()}
        found[f"{name} notes"] = _timeless(notes)
    lines = (path / "metrics.jsonl").read_text().splitlines()
    found["metrics"] = [list(_timeless(json.loads(line)).items()) for line in lines]
    for file in sorted((path / "chains").glob("*.sqlite")):
        # From a copy in memory: something may have the file open still.
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(file.read_bytes())
            found[f"chains {file.name}"] = connection.execute("SELECT row, record FROM chains").fetchall()
    return found


def differences(one: Path, two: Path) -> list[str]:
    """In what two trainings differ."""
    first, second = remains(one), remains(two)
    return [name for name in sorted(first.keys() | second.keys()) if first.get(name) != second.get(name)]


def _bytes(tensor: Tensor) -> tuple[str, tuple[int, ...], bytes]:
    return str(tensor.dtype), tuple(tensor.shape), tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def _timeless(notes: Mapping[str, object]) -> dict[str, object]:
    """Without what depends on the clock: seconds, and the number of bytes that they take in the metrics."""
    if notes.get("ended"):
        # The figures of an epoch, as JSON.
        notes = {**notes, "ended": json.loads(str(notes["ended"]))}
    return {
        name: _timeless(value) if isinstance(value, Mapping) else value
        for name, value in notes.items()
        if name
        not in ("seconds", "training_seconds", "processor_seconds", "metrics_bytes", "checkpoints.checkpoint_seconds")
    }
