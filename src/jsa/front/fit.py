"""Train any model on any rows, with everything that ``jsa train`` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from jsa.batch import Batch
from jsa.data.catalog import names
from jsa.errors import UsageError
from jsa.evaluation.likelihood import device_of
from jsa.front.run import Run
from jsa.io.home_folder import expanded
from jsa.model import LatentVariableModel
from jsa.runs.config import GIVEN_OTHERWISE, OWN, OWN_ROWS, RunConfig, with_settings
from jsa.runs.folder import RunFolder, refuse_existing, unused
from jsa.runs.method import GivenMethod, Method
from jsa.runs.rows import GivenRows, given_rows
from jsa.runs.task import Task, begin, go_on
from jsa.training.callbacks import Callback, EachRecord
from jsa.training.optimization import MakeOptimizer
from jsa.training.signals import StopRequest
from jsa.training.weights import load_weights


def fit(
    model: LatentVariableModel,
    rows: GivenRows,
    *,
    valid: GivenRows | Literal[False] | None = None,
    test: GivenRows | Literal[False] | None = None,
    estimator: GivenMethod = "jsa",
    steps: int | None = None,
    epochs: int | None = None,
    optimizer: MakeOptimizer | None = None,
    device: torch.device | str | None = None,
    out: Path | str | None = None,
    resume: Literal["auto", False] = "auto",
    to_batch: Callable[[Sequence[Any], torch.Tensor], Batch] | None = None,
    loader: Mapping[str, Any] | None = None,
    callbacks: Sequence[Callback | Callable[[Mapping[str, object]], object]] = (),
    config: RunConfig | Mapping[str, Any] | None = None,
) -> Run:
    """Train a model, test it at its best epoch, and keep everything in a run folder.

    The run does what ``jsa train`` does: the two stages, validation, the best epoch, the test, checkpoints. Ctrl-C and
    SIGTERM end it after the running step, and the same call with the same ``out`` goes on, to the same bits.

    Args:
        model: The model. At the end it has the weights of the best epoch.
        rows: What is learned: a tensor, ``jsa.TensorRows``, an array or data frame, a dataset of jsa, its splits, or
            any dataset with ``len()`` and items by number. Row numbers are places in it.
        valid: Rows that find the best epoch. None takes a tenth of ``rows`` by ``split_seed``; False goes without, and
            the last epoch counts as the best.
        test: Rows for the figures that are reported, in the same way.
        estimator: The method: a name (see ``jsa list estimators``), a class, ``functools.partial`` of a class with
            options, or an estimator.
        steps: Steps in all; or
        epochs: Passes through the training rows; 20 if neither is given.
        optimizer: A function of a list of parameters that returns an optimizer; its learning rates follow the schedule.
            Adam with ``learning_rate`` if None.
        device: The device; that of the model if None.
        out: The run folder, a new one in ``runs`` if None, so that only a named one can be continued.
        resume: ``"auto"`` begins, goes on, or opens the finished run in ``out``; False refuses a folder that exists.
        to_batch: For a dataset whose items are not tensors x: a function of some items and their row numbers that
            returns a ``jsa.Batch``.
        loader: Options for reading such items ahead, as ``torch.utils.data.DataLoader`` takes them: ``num_workers``.
        callbacks: Functions of the record of each epoch, a dict of its figures; one that returns True ends the training
            after this epoch. Or instances of ``jsa.Callback``.
        config: Any further setting of ``jsa train`` by its name there, such as ``{"batch_size": 100, "particles": 5}``;
            or a ``jsa.RunConfig``.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from jsa import BeliefNetwork, LatentSpace, Layer
        >>> x = torch.eye(8).repeat(50, 1)
        >>> model = BeliefNetwork(Layer("bernoulli", 8), LatentSpace.of(Layer("bernoulli", 3)), hidden=(16,))
        >>> settings = {"learning_rate": 0.01, "progress": False, "pictures": False}
        >>> with TemporaryDirectory() as folder:
        ...     run = fit(model, x, epochs=3, out=f"{folder}/run", config=settings)
        ...     sorted(run.metrics)[:3], run.evaluation.test.rows
        (['acceptance', 'cached_state_win_rate', 'chain_age'], 40)
    """
    if not isinstance(model, LatentVariableModel):
        raise UsageError(
            f"model is a {type(model).__name__}: give an instance of a subclass of jsa.LatentVariableModel"
        )
    if resume not in ("auto", False):
        raise UsageError(f"resume is 'auto' or False, not {resume!r}")
    path = None if out is None else expanded(Path(out))
    if path is not None and resume is False:
        refuse_existing(path)
    chosen = _settings(config, steps, epochs, device_of(model) if device is None else device)
    method = Method.of(estimator)
    found = given_rows(model, rows, valid, test, chosen.dataset, to_batch, loader)
    known = found.name in names()
    kind = type(model)
    chosen = replace(
        chosen,
        # Its data can be loaded again by its name; whether it is the same is checked then.
        data=found.name if known else OWN_ROWS,
        model=f"{kind.__module__}{OWN}{kind.__qualname__}",
        estimator=method.name,
        network=None,
    )
    watchers = [one if isinstance(one, Callback) else EachRecord(one) for one in callbacks]
    task = Task(chosen, found, model, method, optimizer, watchers)
    if path is not None and RunFolder(path).config.is_file():
        folder = go_on(task, RunFolder.open(path), StopRequest())
    else:
        if path is not None:
            refuse_existing(path)
        folder = begin(task, path or unused(Path("runs") / f"{kind.__name__}-seed{chosen.seed}"), StopRequest())
    notes = load_weights(model.to(chosen.machine.device), folder.best)
    return Run(folder, model.eval(), notes, rows=found)


def _settings(
    config: RunConfig | Mapping[str, Any] | None, steps: int | None, epochs: int | None, device: torch.device | str
) -> RunConfig:
    """Return the configuration with all settings that were given."""
    if steps is not None and epochs is not None:
        raise UsageError("steps and epochs both say how long to train: give one of them")
    given = dict(config) if isinstance(config, Mapping) else {}
    for name, argument in GIVEN_OTHERWISE.items():
        if name in given:
            raise UsageError(f"{name} is no setting of jsa.fit, which gets {argument} as an argument: leave it out")
    for name, value in (("steps", steps), ("epochs", epochs)):
        if value is not None:
            if {"steps", "epochs"} & given.keys():
                raise UsageError(f"{name} is given, and config says how long to train, too: give one of them")
            given[name] = value
    if config is not None and not isinstance(config, RunConfig | Mapping):
        raise UsageError(f"config is a {type(config).__name__}: give a dict of settings, or a jsa.RunConfig")
    base = config if isinstance(config, RunConfig) else RunConfig()
    return with_settings(base, {**given, "device": str(device)})
