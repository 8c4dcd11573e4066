"""A whole run: data, training, test, pictures, all left in a run folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from jsa.assembly import Model, load_splits, make_estimator, make_model
from jsa.configuration import TrainConfig
from jsa.data import Dataset, Splits, batches_in_epoch
from jsa.errors import UsageError
from jsa.estimators.build import check_options, estimator_class
from jsa.evaluation.likelihood import Likelihood, Progress, likelihood
from jsa.evaluation.rows import FirstRows
from jsa.files import write_text
from jsa.pictures import contexts_of, reconstructed_rows, sample_rows, save_curves, save_grid, save_pairs
from jsa.records import to_record
from jsa.training.checkpoint import load_weights
from jsa.training.events import Events
from jsa.training.folder import RunFolder, refuse_existing, unused
from jsa.training.loop import Watcher, train
from jsa.training.report import evaluation_progress, watcher
from jsa.training.selection import BestEpoch
from jsa.training.stages import check_rows_stay

SAMPLES_SHOWN = 100
PAIRS_SHOWN = 50


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    folder: RunFolder
    best: BestEpoch
    test: Likelihood


def run(config: TrainConfig, out: Path | None = None) -> Outcome:
    """Trains, tests at the best epoch, and draws.

    Args:
        config: What to do.
        out: The run folder, a new one in ``runs`` where not given. It is made only when data and model are found good.
    """
    if out is not None:
        refuse_existing(out)
    prepare_machine(config)
    method = estimator_class(config.estimator)
    check_options(config.estimator, config.method.given)
    splits = load_splits(config)
    check_rows_stay(config, method, splits.train.rows_change)
    model = make_model(config, splits)
    path = out or unused(Path("runs") / f"{Path(splits.name).stem}-{config.model}-{config.estimator}-seed{config.seed}")
    try_method(config, model, splits.train)
    folder = RunFolder(path)
    estimator = make_estimator(config, model, splits.train, folder)
    folder.begin(config)

    valid = FirstRows(splits.valid, config.validation.validation_rows)
    bar = watcher(config.epochs, batches_in_epoch(len(splits.train), config.batch_size))
    events = Events(folder.path / "tensorboard")
    try:
        best = train(model, estimator, splits.train, valid, config, folder, Watchers(bar, events))
    finally:
        bar.close()
        events.close()

    load_weights(model, folder.best)
    with evaluation_progress(len(splits.test), "test") as progress:
        samples = config.validation.test_samples
        test = likelihood(model, splits.test, samples, seed=config.seed, progress=progress)
    summary = {"best_epoch": best.epoch, "valid_nll": best.nll, "test": to_record(test)}
    write_text(folder.evaluation, json.dumps(summary, indent=2) + "\n")
    draw(model.cpu(), splits, folder, config.seed)
    return Outcome(folder, best, test)


def prepare_machine(config: TrainConfig) -> None:
    """Sets what torch keeps for the whole process."""
    # Weights far below the smallest normal number slow every product down severalfold and change no result.
    torch.set_flush_denormal(True)
    if config.machine.threads is not None:
        torch.set_num_threads(config.machine.threads)
    try:
        torch.zeros(1, device=config.machine.device)
    except (RuntimeError, AssertionError) as error:
        sentence = str(error).splitlines()[0]
        raise UsageError(f"the device {config.machine.device} cannot be used here ({sentence})") from error


def try_method(config: TrainConfig, model: Model, rows: Dataset) -> None:
    """One estimate of two rows, thrown away: what a method refuses, it refuses before anything is written."""
    small = replace(config, machine=replace(config.machine, mapped_chains=False))
    batch = rows.batch(torch.arange(min(2, len(rows))))
    with torch.random.fork_rng():
        make_estimator(small, model, rows, RunFolder(Path())).eval()(model, batch)


def draw(model: Model, splits: Splits, folder: RunFolder, seed: int) -> None:
    """Leaves samples, reconstructions and curves in the run folder."""
    shape, classes = splits.image_shape, splits.classes
    _, samples = sample_rows(model, SAMPLES_SHOWN, seed, contexts_of(splits.valid, SAMPLES_SHOWN))
    save_grid(folder.path / "samples.png", samples, shape, classes)
    originals, copies = reconstructed_rows(model, splits.valid, PAIRS_SHOWN, seed)
    save_pairs(folder.path / "reconstructions.png", originals, copies, shape, classes)
    save_curves(folder.path / "curves.png", folder.read_metrics())


class Watchers:
    """The progress display and the event file as one watcher."""

    def __init__(self, shown: Watcher, events: Events) -> None:
        self._shown = shown
        self._events = events

    def step(self, epoch: int) -> None:
        """A step was made."""
        self._shown.step(epoch)

    def validating(self, rows: int) -> Progress:
        """A validation begins."""
        return self._shown.validating(rows)

    def epoch(self, record: Mapping[str, object]) -> None:
        """An epoch ended."""
        self._shown.epoch(record)
        self._events.epoch(record)
