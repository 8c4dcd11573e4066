"""A whole run: read data, train, test and draw, with everything in a run folder."""

from __future__ import annotations

import sys
import warnings
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from jsa.data import Splits, batches_in_epoch
from jsa.data.schema import written_columns
from jsa.errors import UsageError, shortened
from jsa.estimators.registry import check_options, estimator_class, option_defaults
from jsa.evaluation.ancestral_samples import contexts_of, sample_rows
from jsa.evaluation.rows import Subset
from jsa.io.atomic_files import write_arrays
from jsa.io.memory import set_memory_limit
from jsa.io.provenance import provenance
from jsa.learner import Learner
from jsa.runs.build import Model, load_splits, load_splits_again, make_estimator, make_model
from jsa.runs.config import RunConfig
from jsa.runs.feasibility import check_run, refuse_large_model
from jsa.runs.final_test import Scoring
from jsa.runs.folder import RunFolder, refuse_existing, unused
from jsa.runs.identity import DataIdentity, identity, rows_identity
from jsa.runs.plots import reconstructed_rows, save_curves, save_grid, save_pairs
from jsa.runs.scores import Scores, read_scores
from jsa.training.loop import TrainingRows, train
from jsa.training.progress import Events, display
from jsa.training.selection import LeadingEpochs
from jsa.training.signals import StopRequest, StopRequestedError
from jsa.training.stages import check_rows_stay

SAMPLES_SHOWN = 100
PAIRS_SHOWN = 50


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        folder: Its folder.
        scores: Its figures.
        outputs: Its pictures and tables.
    """

    folder: RunFolder
    scores: Scores
    outputs: list[Path]

    @property
    def still_learning(self) -> bool:
        """Whether the last epoch was the best one under a constant learning rate."""
        config = self.folder.read_config()
        return self.scores.best.epoch == config.epochs and config.optimization.schedule == "constant"


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


def run(config: RunConfig, out: Path | None = None, stop: StopRequest | None = None) -> Outcome:
    """Train, test at the best epoch, and draw.

    Args:
        config: The configuration.
        out: The run folder, a new one in ``runs`` where not given. It is made once data and model are found good.
        stop: A request to stop; if one is given, it listens to Ctrl-C and SIGTERM while the run has something to keep.
    """
    if out is not None:
        refuse_existing(out)
    _check_method(config)
    config = resolved(config)
    splits = load_splits(config)
    model = _make_model(config, splits)
    path = out or unused(Path("runs") / f"{Path(splits.name).stem}-{config.model}-{config.estimator}-seed{config.seed}")
    check_run(config, model, splits)
    folder = RunFolder(path)
    with folder.in_use():
        folder.begin(config)
        return _to_the_end(config, splits, model, folder, stop)


def resume(path: Path, changes: Changes, stop: StopRequest | None = None, data_dir: Path | None = None) -> Outcome:
    """Continue a run that was stopped, to the same end as if it had not been; a finished one gives its figures.

    Args:
        path: The run folder.
        changes: The settings that change from here on.
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
        check_run(changed, model, splits)
        if changed != config:
            folder.write_config(changed)
        folder.prepare_to_continue()
        return _to_the_end(changed, splits, model, folder, stop)


def finished(folder: RunFolder) -> Outcome | None:
    """Return the outcome of a run whose files are all there, None for one that has something left to do."""
    known = DataIdentity.read(folder.path)
    if known is None:
        return None
    shown = folder.outputs(pictures=known.shape.image_shape is not None)
    if not all(path.is_file() for path in (folder.evaluation, *shown)):
        return None
    return Outcome(folder, read_scores(folder), shown)


def _check_method(config: RunConfig) -> None:
    """Refuse what can be refused before any data is read."""
    prepare_machine(config)
    estimator_class(config.estimator)
    check_options(config.estimator, config.method.given)


def _make_model(config: RunConfig, splits: Splits) -> Model:
    """Make the model, once data and method are found to fit."""
    check_rows_stay(config, estimator_class(config.estimator), splits.train.rows_change)
    refuse_large_model(config, splits.schema)
    return make_model(config, splits.schema)


def _to_the_end(
    config: RunConfig, splits: Splits, model: Model, folder: RunFolder, stop: StopRequest | None
) -> Outcome:
    """Train from wherever the run stands, test, and draw."""
    learner = Learner(model, make_estimator(config, model, splits.train, folder)).to(config.machine.device)
    folder.add_provenance(provenance())
    _remember_data(splits, folder)
    request = stop or StopRequest()
    with nullcontext() if stop is None else stop.listening():
        leading = _train(config, splits, learner, folder, request)
        try:
            scores = Scoring(config, splits, model, folder, request).score(leading)
            request.check()
        except StopRequestedError:
            raise request.interrupted("after training", folder.continue_with) from None
        draw(model.cpu(), splits, folder, config.seed)
    return Outcome(folder, scores, folder.outputs(pictures=splits.schema.image_shape is not None))


def _remember_data(splits: Splits, folder: RunFolder) -> None:
    """Identify the data in the run folder when the run begins or begins again."""
    if folder.state.is_file():
        return
    known = DataIdentity.read(folder.path)
    DataIdentity.of(splits, Path.cwd() if known is None else known.started_in).write(folder.path)


def _train(config: RunConfig, splits: Splits, learner: Learner, folder: RunFolder, stop: StopRequest) -> LeadingEpochs:
    followed = config.validation.followed_rows
    rows = TrainingRows(
        splits.train,
        Subset.spread(splits.valid, config.validation.validation_rows),
        {}
        if followed is None
        else {"train": Subset.spread(splits.train, followed), "test": Subset.spread(splits.test, followed)},
    )
    sys.stderr.write(f"read {splits.summary}\n")
    shown = display(config.epochs, batches_in_epoch(len(splits.train), config.batch_size))
    for sentence in splits.notes:
        shown.note(sentence)
    # That of the folder is of these rows: it was written, or compared with them, when they were read.
    known = DataIdentity.read(folder.path)
    of_rows = identity(config, rows_identity(splits.train) if known is None else known.train)
    return train(learner, rows, config, folder, [shown, Events(folder.events)], stop, of_rows)


def resolved(config: RunConfig) -> RunConfig:
    """Return the configuration with the values that stand for what it leaves open, so that no later default does."""
    known: dict[str, Any] = {
        name: value for name, value in option_defaults(config.estimator).items() if hasattr(config.method, name)
    }
    return replace(
        config.with_switch_epoch,
        method=replace(config.method, **{**known, **config.method.given}),
        machine=replace(config.machine, threads=torch.get_num_threads()),
    )


def prepare_machine(config: RunConfig) -> None:
    """Set what torch keeps for the whole process, and refuse a device that cannot be used."""
    # Weights far below the smallest normal number slow every product down severalfold and change no result.
    torch.set_flush_denormal(True)
    if config.machine.threads is not None:
        torch.set_num_threads(config.machine.threads)
    set_memory_limit(config.machine.memory_limit)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Some devices take tensors and never give them back.
            torch.ones(1, device=config.machine.device).item()
    except Exception as error:  # a device that is not there fails in any way
        reason = shortened(next(iter(str(error).splitlines()), type(error).__name__))
        raise UsageError(
            f"the device '{shortened(config.machine.device)}' cannot be used here ({reason}): choose another --device, "
            "such as cpu"
        ) from error


def draw(model: Model, splits: Splits, folder: RunFolder, seed: int) -> None:
    """Write samples and curves to the run folder, and reconstructions of rows that are pictures."""
    samples = sample_rows(model, SAMPLES_SHOWN, seed, contexts_of(splits.valid, SAMPLES_SHOWN))
    if splits.schema.image_shape is None:
        write_arrays(folder.sample_table, written_columns(splits.schema, samples.rows.numpy()))
    else:
        save_grid(folder.samples, samples.means, splits.schema.image_shape, splits.schema.classes)
        originals, copies = reconstructed_rows(model, splits.valid, PAIRS_SHOWN, seed)
        save_pairs(folder.reconstructions, originals, copies, splits.schema.image_shape, splits.schema.classes)
    save_curves(folder.curves, folder.read_metrics())
