"""A whole run: data, training, test, pictures, all left in a run folder."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from jsa.data import Dataset, Splits, batches_in_epoch
from jsa.data.schema import written_columns
from jsa.errors import UsageError
from jsa.estimators.registry import check_options, estimator_class
from jsa.evaluation.ancestral_samples import contexts_of, sample_rows
from jsa.evaluation.rows import Progress, Subset
from jsa.io.atomic_files import write_arrays
from jsa.io.provenance import provenance
from jsa.learner import Learner
from jsa.runs.build import Model, load_splits, load_splits_again, make_estimator, make_model
from jsa.runs.config import TrainConfig
from jsa.runs.final_test import Scoring
from jsa.runs.folder import RunFolder, refuse_existing, unused
from jsa.runs.identity import DataIdentity
from jsa.runs.plots import reconstructed_rows, save_curves, save_grid, save_pairs
from jsa.runs.scores import Scores, read_scores
from jsa.training.loop import TrainingRows, train
from jsa.training.progress import Events, Watcher, watcher
from jsa.training.selection import LeadingEpochs
from jsa.training.signals import StopRequest, StopRequestedError
from jsa.training.stages import check_rows_stay

SAMPLES_SHOWN = 100
PAIRS_SHOWN = 50


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Attributes:
        folder: Its folder.
        scores: Its figures.
        outputs: What it left for people.
    """

    folder: RunFolder
    scores: Scores
    outputs: list[Path]

    @property
    def still_learning(self) -> bool:
        """Whether it ended at its best epoch, though no schedule brought the learning rate down to an end."""
        config = self.folder.read_config()
        return self.scores.best.epoch == config.epochs and config.optimization.schedule == "constant"


@dataclass(frozen=True)
class Changes:
    """The settings that may be others when a run is continued; none leaves one as it was."""

    learning_rate: float | None = None
    non_finite: Literal["stop", "skip"] | None = None

    def applied(self, config: TrainConfig) -> TrainConfig:
        """The configuration with these settings."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        return replace(config, optimization=replace(config.optimization, **given))


def run(config: TrainConfig, out: Path | None = None, stop: StopRequest | None = None) -> Outcome:
    """Trains, tests at the best epoch, and draws.

    Args:
        config: What to do.
        out: The run folder, a new one in ``runs`` where not given. It is made only when data and model are found good.
        stop: Who may ask to stop; where one is given, Ctrl-C and SIGTERM ask it while the run has something to keep.
    """
    if out is not None:
        refuse_existing(out)
    _check_method(config)
    splits = load_splits(config)
    model = _make_model(config, splits)
    path = out or unused(Path("runs") / f"{Path(splits.name).stem}-{config.model}-{config.estimator}-seed{config.seed}")
    try_method(config, model, splits.train)
    folder = RunFolder(path)
    with folder.in_use():
        folder.begin(config)
        return _to_the_end(config, splits, model, folder, stop)


def resume(path: Path, changes: Changes, stop: StopRequest | None = None, data_dir: Path | None = None) -> Outcome:
    """Continues a run that was stopped, to the same end as if it had not been; a finished one gives its figures.

    Args:
        path: The run folder.
        changes: The settings that are to be others from here on.
        stop: As for ``run``.
        data_dir: Where the data is, if not where it was.
    """
    folder = RunFolder.open(path)
    with folder.in_use():
        if (outcome := finished(folder)) is not None:
            return outcome
        config = folder.read_config()
        changed = changes.applied(config)
        _check_method(changed)
        # A run without a state begins again, and may do so with a table that was mended.
        splits = load_splits_again(changed, folder, data_dir, may_differ=not folder.state.is_file())
        model = _make_model(changed, splits)
        if changed != config:
            folder.write_config(changed)
        folder.prepare_to_continue()
        return _to_the_end(changed, splits, model, folder, stop)


def finished(folder: RunFolder) -> Outcome | None:
    """What a run came to whose files are all there, none for one that has something left to do."""
    known = DataIdentity.read(folder.path)
    pictures = known is None or known.shape is None or known.shape.image_shape is not None
    shown = folder.outputs(pictures=pictures)
    if not all(path.is_file() for path in (folder.evaluation, *shown)):
        return None
    return Outcome(folder, read_scores(folder), shown)


def _check_method(config: TrainConfig) -> None:
    """Refuses what can be refused before any data is read."""
    prepare_machine(config)
    estimator_class(config.estimator)
    check_options(config.estimator, config.method.given)


def _make_model(config: TrainConfig, splits: Splits) -> Model:
    """The model, when data and method were found to fit."""
    check_rows_stay(config, estimator_class(config.estimator), splits.train.rows_change)
    return make_model(config, splits.schema)


def _to_the_end(
    config: TrainConfig, splits: Splits, model: Model, folder: RunFolder, stop: StopRequest | None
) -> Outcome:
    """Trains from wherever the run stands, tests, and draws."""
    learner = Learner(model, make_estimator(config, model, splits.train, folder))
    folder.add_provenance(provenance())
    _remember_data(splits, folder)
    request = stop or StopRequest()
    with nullcontext() if stop is None else stop.listening():
        leading = _train(config, splits, learner, folder, request)
        try:
            scores = Scoring(config, splits, model, folder, request).score(leading)
            request.check()
        except StopRequestedError:
            raise request.interrupted("behind the training", folder.resume_command) from None
        draw(model.cpu(), splits, folder, config.seed)
    return Outcome(folder, scores, folder.outputs(pictures=splits.schema.image_shape is not None))


def _remember_data(splits: Splits, folder: RunFolder) -> None:
    """Leaves in the run folder what tells its data from other data, when the run begins or begins again."""
    if folder.state.is_file():
        return
    known = DataIdentity.read(folder.path)
    DataIdentity.of(splits, Path.cwd() if known is None else known.started_in).write(folder.path)


def _train(
    config: TrainConfig, splits: Splits, learner: Learner, folder: RunFolder, stop: StopRequest
) -> LeadingEpochs:
    followed = config.validation.followed_rows
    rows = TrainingRows(
        splits.train,
        Subset.first(splits.valid, config.validation.validation_rows),
        {}
        if followed is None
        else {"train": Subset.random(splits.train, followed), "test": Subset.random(splits.test, followed)},
    )
    sys.stderr.write(f"read {splits.summary}\n")
    bar = watcher(config.epochs, batches_in_epoch(len(splits.train), config.batch_size))
    events = Events(folder.events)
    try:
        for sentence in splits.notes:
            bar.note(sentence)
        return train(learner, rows, config, folder, Watchers(bar, events), stop)
    finally:
        bar.close()
        events.close()


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
    """Leaves samples and curves in the run folder, and reconstructions of rows that are pictures."""
    samples = sample_rows(model, SAMPLES_SHOWN, seed, contexts_of(splits.valid, SAMPLES_SHOWN))
    if splits.schema.image_shape is None:
        write_arrays(folder.sample_table, written_columns(splits.schema, samples.rows.numpy()))
    else:
        save_grid(folder.samples, samples.means, splits.schema.image_shape, splits.schema.classes)
        originals, copies = reconstructed_rows(model, splits.valid, PAIRS_SHOWN, seed)
        save_pairs(folder.reconstructions, originals, copies, splits.schema.image_shape, splits.schema.classes)
    save_curves(folder.curves, folder.read_metrics())


class Watchers:
    """The progress display and the event file as one watcher."""

    def __init__(self, shown: Watcher, events: Events) -> None:
        self._shown = shown
        self._events = events

    def start(self, epoch: int, step: int) -> None:
        """The training begins."""
        self._shown.start(epoch, step)
        self._events.start(epoch)

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

    def note(self, sentence: str) -> None:
        """Something that whoever trains should know."""
        self._shown.note(sentence)
