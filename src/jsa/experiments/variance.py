"""The variance of a method's gradients along its own run, at the snapshots that the run kept."""

from __future__ import annotations

import json
import math
from pathlib import Path

import torch

from jsa.assembly import load_splits, make_estimator, make_model
from jsa.evaluation.gradient_variance import gradient_variance
from jsa.evaluation.score import LogVariance
from jsa.experiments.jobs import VARIANCES
from jsa.experiments.results import VariancePoint
from jsa.files import write_text
from jsa.learner import Learner
from jsa.records import from_record, read_json, to_record
from jsa.run import prepare_machine
from jsa.training.folder import RunFolder
from jsa.training.report import evaluation_progress
from jsa.training.signals import StopRequest, StopRequestedError
from jsa.training.state import load_learner

ROWS, DRAWS = 200, 1_000
"""The paper's batch and the number of its gradients."""


def variances_along(folder: RunFolder, stop: StopRequest, draws: int) -> tuple[VariancePoint, ...]:
    """Measures at each snapshot of a finished run; what was measured before a stop is not measured again.

    The figure is the paper's: the variance of one gradient of the first training rows, in the stage that the run was
    in, and with the states of the chains held fixed where they persist.
    """
    config = folder.read_config()
    every = config.machine.snapshot_every
    epochs = [] if every is None else list(range(every, config.epochs + 1, every))
    path = folder.path / VARIANCES
    known = _read(path)
    if known.keys() >= set(epochs):
        return tuple(known[epoch] for epoch in epochs)
    prepare_machine(config)
    splits = load_splits(config)
    model = make_model(config, splits.row_shape)
    estimator = make_estimator(config, model, splits.train, folder)
    learner = Learner(model, estimator)
    batch = splits.train.batch(torch.arange(min(ROWS, len(splits.train))))
    for epoch in epochs:
        if epoch in known:
            continue
        load_learner(folder.snapshot(epoch), learner)
        torch.manual_seed(config.seed)
        try:
            with evaluation_progress(draws, f"gradients at epoch {epoch}") as progress:
                found = gradient_variance(model, estimator, batch, draws, progress=stop.interrupting(progress))
        except StopRequestedError:
            raise stop.interrupted(f"before the variance at epoch {epoch}", "the same command") from None
        known[epoch] = VariancePoint(epoch, _varying(found["theta"]), _varying(found["phi"]))
        write_text(path, json.dumps([to_record(point) for point in known.values()]) + "\n")
    return tuple(known[epoch] for epoch in epochs)


def _varying(found: LogVariance) -> LogVariance | None:
    return found if math.isfinite(found.log_variance) else None


def _read(path: Path) -> dict[int, VariancePoint]:
    if not path.is_file():
        return {}
    points = [from_record(VariancePoint, record, str(path)) for record in read_json(path)]
    return {point.epoch: point for point in points}
