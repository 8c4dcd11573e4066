"""The process of one job: trains or continues, measures what the figures need, and writes the result.

It ends itself, with a checkpoint, when its standard input is closed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from jsa.assembly import open_run
from jsa.errors import UsageError, guarded
from jsa.experiments.jobs import Job, Places
from jsa.experiments.published import published_methods
from jsa.experiments.results import (
    Point,
    Result,
    Screened,
    VariancePoint,
    significant,
    write_result,
)
from jsa.experiments.variance import DRAWS, variances_along
from jsa.files import remove_leftovers
from jsa.pictures import save_grid
from jsa.records import from_record
from jsa.run import Changes, Outcome, resume, run
from jsa.sampling import contexts_of, sample_rows
from jsa.training.folder import RunFolder
from jsa.training.lock import InUseError
from jsa.training.scores import read_rescored
from jsa.training.signals import StopRequest

PATIENCE = 60.0
"""Seconds to wait for the process of an earlier call that is just writing its last checkpoint."""

SAMPLES_SHOWN = 20


def work(job: Job, places: Places) -> None:
    """Brings a job to its end from wherever it stands."""
    folder = RunFolder(places.run(job))
    stop = StopRequest()
    outcome = _trained(job, folder, stop)
    with folder.in_use(), stop.listening():
        variance = variances_along(folder, stop, job.deviations.draws or DRAWS)
    path = places.result(job)
    path.parent.mkdir(parents=True, exist_ok=True)
    _draw(folder, path.with_suffix(".png"))
    write_result(_result(job, folder, outcome, variance), path)


def _trained(job: Job, folder: RunFolder, stop: StopRequest) -> Outcome:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if not folder.config.is_file():
                remove_leftovers(folder.path)
                return run(job.config, folder.path, stop)
            _refuse_other_settings(job, folder)
            return resume(folder.path, Changes(), stop)
        except InUseError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def _refuse_other_settings(job: Job, folder: RunFolder) -> None:
    """A run that was made with other settings is none of this table."""
    if not job.made_with(folder.read_config()):
        raise UsageError(f"{folder.path} was made with other settings than this job has: move it away")


def _result(job: Job, folder: RunFolder, outcome: Outcome, variance: Sequence[VariancePoint]) -> Result:
    metrics = [significant(record) for record in folder.read_metrics()]
    names = {field.name for field in fields(Point)}
    screened = {int(record["epoch"]): record["valid_nll"] for record in metrics if "valid_nll" in record}
    scores, last = outcome.scores, metrics[-1]
    return Result(
        job=job,
        command=job.command,
        config=folder.read_config(),
        versions=tuple(folder.read_provenance()),
        seconds=last["seconds"],
        training_seconds=last["training_seconds"],
        processor_seconds=last["processor_seconds"],
        decoder_evaluations=int(last["decoder_evaluations"]),
        best_epoch=scores.best.epoch,
        test=scores.test,
        leading=tuple(Screened(epoch, screened[epoch], found) for epoch, found in read_rescored(folder).items()),
        curve=tuple(
            from_record(Point, {name: value for name, value in record.items() if name in names})
            for record in metrics
            if "valid_nll" in record
        ),
        variance=tuple(variance),
    )


def _draw(folder: RunFolder, path: Path) -> None:
    """A few samples of the best epoch, small enough to be published beside the figures."""
    opened = open_run(folder.path)
    contexts = contexts_of(opened.splits.valid, SAMPLES_SHOWN)
    samples = sample_rows(opened.model, SAMPLES_SHOWN, opened.config.seed, contexts).means
    save_grid(path, samples, opened.shape.image_shape, opened.shape.classes, scale=1)


def _end_with_input() -> None:
    """Asks this process to stop when nobody holds the other end of its standard input any more."""
    # Not through sys.stdin, whose lock a thread that waits would hold when the interpreter ends.
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main(arguments: Sequence[str]) -> int:
    """Works on the job that the argument describes."""

    def action() -> int:
        record = json.loads(arguments[0])
        threading.Thread(target=_end_with_input, daemon=True).start()
        with published_methods():
            work(from_record(Job, record["job"]), Places(Path(record["runs"]), Path(record["results"])))
        return 0

    return guarded(action)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
