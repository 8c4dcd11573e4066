"""A whole run, from its parts to the end: train, test and draw, with everything in a run folder."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from jsa.data import batches_in_epoch
from jsa.data.streams import stream_digest
from jsa.errors import CheckpointError, UsageError, shortened
from jsa.evaluation.rows import Subset
from jsa.io.memory import limited_memory
from jsa.io.provenance import provenance
from jsa.learner import Learner
from jsa.model import LatentVariableModel
from jsa.runs.config import RunConfig
from jsa.runs.feasibility import check_run
from jsa.runs.final_test import Scoring
from jsa.runs.folder import RunFolder
from jsa.runs.identity import RunIdentity, described, identity, settings
from jsa.runs.method import Method
from jsa.runs.plots import draw
from jsa.runs.rows import RunRows
from jsa.torch_contexts import denormals_as_before
from jsa.training.callbacks import Callback
from jsa.training.loop import TrainingRows, train
from jsa.training.optimization import MakeOptimizer
from jsa.training.progress import TensorBoard, display
from jsa.training.selection import LeadingEpochs
from jsa.training.signals import StopRequest, StopRequestedError
from jsa.training.stages import check_rows_stay
from jsa.training.state import check_identity


@dataclass(frozen=True)
class Task:
    """What a run learns, from what, and how.

    Attributes:
        config: The configuration, with whatever may be left open.
        rows: The rows.
        model: The model, which ends with the weights of the best epoch.
        method: The method.
        optimizer: Makes the optimizer, if not the one of the configuration.
        callbacks: What else happens at the moments of the training.
    """

    config: RunConfig
    rows: RunRows
    model: LatentVariableModel
    method: Method
    optimizer: MakeOptimizer | None = None
    callbacks: Sequence[Callback] = ()

    def settled(self) -> Task:
        """Return the task with the values that stand for what it leaves open, so that no later default does."""
        method, config = self.method.settled(self.config)
        config = config.with_steps(batches_in_epoch(len(self.rows.train), config.batch_size))
        if config.stages.switch_epoch is None and method.switches_itself:
            config = replace(config, stages=replace(config.stages, switch_epoch=config.epochs))
        threads = config.machine.threads or torch.get_num_threads()
        config = replace(config.with_switch_epoch, machine=replace(config.machine, threads=threads))
        _check_validation(config, self.rows)
        if not any(parameter.requires_grad for parameter in self.model.parameters()):
            raise UsageError("no parameter of the model is learned: unfreeze some with requires_grad_()")
        check_rows_stay(config, method.kind, self.rows.train)
        return replace(self, method=method, config=config)


def _check_validation(config: RunConfig, rows: RunRows) -> None:
    """Refuse settings that wait for validations where there are none."""
    if rows.valid is None:
        waits = {"switch-patience": config.stages.switch_patience, "stop-after": config.validation.stop_after}
        for name, value in waits.items():
            if value is not None:
                raise UsageError(
                    f"{name} counts validations, but there are no validation rows: leave it out, or give some"
                )


@contextmanager
def machine(config: RunConfig) -> Iterator[None]:
    """Set inside this block what torch keeps for the whole process, and refuse a device that cannot be used.

    At its end, random numbers continue as if none had been drawn.
    """
    threads = torch.get_num_threads()
    check_device(config.machine.device)
    device = torch.device(config.machine.device)
    random_numbers = torch.random.fork_rng([device] if device.type == "cuda" else [])
    with random_numbers, denormals_as_before(), limited_memory(config.machine.memory_limit):
        # Weights far below the smallest normal number slow every product down severalfold and change no result.
        torch.set_flush_denormal(True)
        if config.machine.threads is not None:
            torch.set_num_threads(config.machine.threads)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def check_device(device: str) -> None:
    """Refuse a device that cannot be used here."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Some devices take tensors and never give them back.
            torch.ones(1, device=device).item()
    except Exception as error:  # a device that is not there fails in any way
        reason = shortened(next(iter(str(error).splitlines()), type(error).__name__))
        raise UsageError(
            f"the device '{shortened(device)}' cannot be used here ({reason}): choose another --device, such as cpu"
        ) from error


def begin(task: Task, path: Path, stop: StopRequest | None = None) -> RunFolder:
    """Make a run from its beginning to its end; the folder is made once everything is found good.

    Args:
        task: The run.
        path: Its folder.
        stop: A request to stop; if one is given, it listens to Ctrl-C and SIGTERM while the run has something to keep.
    """
    with machine(task.config):
        settled = task.settled()
        check_run(settled.config, settled.model, settled.rows, settled.method)
        folder = RunFolder(path, settled.config)
        with folder.in_use():
            folder.begin(settled.config)
            _to_the_end(settled, folder, stop)
    return folder


def go_on(task: Task, folder: RunFolder, stop: StopRequest | None = None) -> RunFolder:
    """Continue a run that was stopped, to the same end as if it had not been; a finished one is left as it is.

    Args:
        task: The run, which must be the same, but for the settings that may change.
        folder: Its folder.
        stop: As for ``begin``.
    """
    with machine(task.config):
        known = folder.read_config()
        if task.config.machine.threads is None:
            hardware = replace(task.config.machine, threads=known.machine.threads)
            task = replace(task, config=replace(task.config, machine=hardware))
        settled = task.settled()
        with folder.in_use():
            _refuse_another(settled, known, folder)
            if folder.finished:
                return folder
            check_run(settled.config, settled.model, settled.rows, settled.method)
            if settled.config != known:
                folder.write_config(settled.config)
            folder.prepare_to_continue()
            _to_the_end(settled, folder, stop)
    return folder


def _refuse_another(task: Task, known: RunConfig, folder: RunFolder) -> None:
    """Refuse to continue a run with other settings, with another model, or, once it has a state, with other rows."""
    try:
        check_identity(settings(task.config), settings(known))
    except UsageError as error:
        raise CheckpointError(f"{folder.path} has another run: {error}") from error
    begun = RunIdentity.read(folder.path)
    if begun is None or not folder.state.is_file():
        # A run without a state begins again, and may do so with a table that was mended.
        return
    if begun.model != described(task.model):
        raise CheckpointError(
            f"{folder.path} has another run: its model was {begun.model}, and this one is {described(task.model)}: "
            "give the same model, or choose another folder"
        )
    if (part := begun.changed(task.rows.parts)) is not None:
        raise CheckpointError(
            f"{folder.path} has another run: its {part} rows were others, or in another order: give the same rows, or "
            "choose another folder"
        )


def _to_the_end(task: Task, folder: RunFolder, stop: StopRequest | None) -> None:
    """Train from wherever the run stands, test, and draw."""
    config, rows, model = task.config, task.rows, task.model
    # Not the stream that a model is initialized from.
    torch.manual_seed(int.from_bytes(stream_digest("training", config.seed)[:8], "little") >> 1)
    cache_folder = folder.chains if config.machine.chains_on_disk else None
    estimator = task.method.build(config, model, rows.train, cache_folder)
    learner = Learner(model, estimator).to(config.machine.device)
    folder.add_provenance(provenance())
    known, notes = RunIdentity.read(folder.path), rows.notes
    if known is None or not folder.state.is_file():
        started_in = Path.cwd() if known is None else known.started_in
        known = RunIdentity.of(rows.parts, rows.schema, model, started_in)
        known.write(folder.path)
    else:
        notes = (*notes, *known.notes)
    request = stop or StopRequest()
    with nullcontext() if stop is None else stop.listening():
        leading = _train(task, learner, folder, request, identity(config, known.train, known.model), notes)
        try:
            Scoring(config, rows, model, folder, request).score(leading)
            request.check()
        except StopRequestedError:
            raise request.interrupted("after training", folder.continue_with) from None
        model.eval()
        if config.output.pictures:
            draw(model, rows, folder, config.seed)


def _train(
    task: Task,
    learner: Learner,
    folder: RunFolder,
    stop: StopRequest,
    same: Mapping[str, object],
    notes: Sequence[str],
) -> LeadingEpochs:
    config, rows = task.config, task.rows
    followed, chosen = config.validation.followed_rows, config.validation.validation_rows
    training_rows = TrainingRows(
        rows.train,
        None if rows.valid is None else Subset.spread(rows.valid, chosen),
        {
            name: Subset.spread(part, followed)
            for name, part in (("train", rows.train), ("test", rows.test))
            if followed is not None and part is not None
        },
    )
    steps = config.steps or config.epochs * batches_in_epoch(len(rows.train), config.batch_size)
    callbacks: list[Callback] = [TensorBoard(folder.events)]
    if config.output.progress:
        sys.stderr.write(f"read {rows.summary}\n")
        callbacks.insert(0, display(config.epochs, steps))
        for sentence in notes:
            callbacks[0].note(sentence)
    return train(learner, training_rows, config, folder, [*callbacks, *task.callbacks], stop, same, task.optimizer)
