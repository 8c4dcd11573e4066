"""The result of a finished job: one JSON file, from which tables, figures and the report are made.

Reading results needs no torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from jsa.errors import UsageError
from jsa.evaluation.results import Likelihood, LogVariance
from jsa.experiments import version_0_1_0
from jsa.experiments.jobs import VARIANCES, Job, Places
from jsa.experiments.tables import TABLES
from jsa.io.atomic_files import write_text
from jsa.io.json_records import from_record, read_json, to_record
from jsa.io.provenance import Provenance
from jsa.report.formatting import significant
from jsa.runs.config import RunConfig
from jsa.runs.folder import RunFolder
from jsa.runs.scores import read_rescored, read_scores

FORMAT = 1
DIGITS = 7
"""Significant digits of the figures of a curve."""


@dataclass(frozen=True)
class Screened:
    """A leading epoch: its validation NLL with the samples of a screening and with those of the test."""

    epoch: int
    screened_nll: float
    rescored: Likelihood


@dataclass(frozen=True)
class Point:
    """A validation during a run; a figure that a method does not have is None.

    Attributes:
        epoch: The epoch.
        training_seconds: The wall-clock time of the steps so far, without validations.
        processor_seconds: Their processor time, which does not depend on other work on the machine.
        decoder_evaluations: The states that the steps passed through the joint density so far, counted for each row.
        valid_nll: The validation NLL with the samples of a screening.
        train_nll, test_nll: The NLL of the followed rows, with as many samples as in the test.
        objective: The mean bound over the epoch.
        acceptance, chain_age, frozen_share: The health of the chains.
        stage: The stage of the chains.
    """

    epoch: int
    training_seconds: float
    processor_seconds: float
    decoder_evaluations: int
    valid_nll: float
    train_nll: float | None = None
    test_nll: float | None = None
    objective: float | None = None
    acceptance: float | None = None
    chain_age: float | None = None
    frozen_share: float | None = None
    stage: int | None = None


@dataclass(frozen=True)
class VariancePoint:
    """The variance of the gradients at an epoch, given the states of the chains if they persist.

    It is None if all gradients were equal, because JSON has no number for the logarithm of zero.
    """

    epoch: int
    theta: LogVariance | None
    phi: LogVariance | None


@dataclass(frozen=True)
class Result:
    """The result of a job.

    Attributes:
        stopped_at: The epoch at which the run was stopped early; None if it has all its epochs.
        followed_rows: The number of followed rows, if it differs from the cell's.
    """

    job: Job
    command: str
    config: RunConfig
    versions: tuple[Provenance, ...]
    seconds: float
    training_seconds: float
    processor_seconds: float
    decoder_evaluations: int
    best_epoch: int
    test: Likelihood
    leading: tuple[Screened, ...]
    curve: tuple[Point, ...]
    variance: tuple[VariancePoint, ...] = ()
    stopped_at: int | None = None
    followed_rows: int | None = None

    @property
    def remark(self) -> str | None:
        """A warning if the run differs from others of its cell, else None."""
        parts = []
        if self.stopped_at is not None:
            parts.append(f"stopped at epoch {self.stopped_at} of {self.config.epochs}")
        if self.followed_rows is not None:
            parts.append(f"{self.followed_rows:,} rows followed")
        return ", ".join(parts) or None

    @property
    def valid(self) -> Likelihood:
        """The likelihood of the best epoch on the validation rows, with as many samples as in the test."""
        return next(found.rescored for found in self.leading if found.epoch == self.best_epoch)

    @property
    def switch_epoch(self) -> int | None:
        """The last epoch of stage I; None if no chains persisted or validations are too rare to show it."""
        return self.config.switch_epoch if any(point.stage == 2 for point in self.curve) else None


def result_of(job: Job, folder: RunFolder) -> Result:
    """Make the result of a job from the small files of its trained, scored and measured run."""
    metrics = [_rounded(record) for record in folder.read_metrics()]
    validations = {int(record["epoch"]): record for record in metrics if "valid_nll" in record}
    names = {field.name for field in fields(Point)}
    scores, last = read_scores(folder), metrics[-1]
    if scores.test is None:
        raise UsageError(f"{folder.path} has no test figures: begin the run again")
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
        leading=tuple(
            Screened(epoch, validations[epoch]["valid_nll"], found) for epoch, found in read_rescored(folder).items()
        ),
        curve=tuple(
            from_record(Point, {name: value for name, value in record.items() if name in names})
            for record in validations.values()
        ),
        variance=tuple(read_variances(folder).values()),
    )


def read_variances(folder: RunFolder) -> dict[int, VariancePoint]:
    """Return the gradient variances of a run measured so far, by epoch."""
    path = folder.path / VARIANCES
    records = read_json(path) if path.is_file() else []
    points = [from_record(VariancePoint, record, str(path)) for record in records]
    return {point.epoch: point for point in points}


def write_result(result: Result, path: Path) -> None:
    """Write a result whole or not at all, without the data folder of this machine."""
    record = to_record(replace(result, config=result.config.anywhere))
    text = _text({"format": FORMAT, **{name: value for name, value in record.items() if value is not None}})
    # A single unreadable file would keep all others out of tables and figures.
    _result(json.loads(text), path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)


def read_result(path: Path) -> Result:
    """Read a result from an untrusted file, also one of version 0.1.0."""
    return _result(read_json(path), path)


def _result(record: Any, path: Path) -> Result:
    """Make a result from the record of a file."""
    if not isinstance(record, dict) or record.pop("format", None) != FORMAT:
        raise UsageError(f"{path} is not a result that this version of jsa can read: make it again")
    try:
        record = version_0_1_0.with_names_of_today(record)
        if "config" in record:
            record["config"] = version_0_1_0.with_all_settings(record["config"])
        result = from_record(Result, record)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    if result.best_epoch not in {found.epoch for found in result.leading}:
        raise UsageError(f"{path}: its best epoch {result.best_epoch} is not a leading epoch: make it again")
    best, epochs = result.best_epoch, result.config.epochs
    if result.stopped_at is not None and not best <= result.stopped_at <= epochs:
        raise UsageError(f"{path}: its last epoch is not between the best one, {best}, and {epochs}: make it again")
    if not result.job.made_with(result.config, result.followed_rows):
        raise UsageError(
            f"{path} was made with other settings than this version has for its cell: move it away and make it again "
            f"with {result.job.command}"
        )
    return result


def is_done(job: Job, places: Places) -> bool:
    """Return whether the result of a job exists; refuse that of another job of the same name."""
    path = places.result(job)
    if not path.is_file():
        return False
    found = read_result(path).job
    if found != job:
        raise UsageError(f"{path} is the result of another job ({found.command}): choose another folder with --results")
    return True


def read_results(folder: Path) -> list[Result]:
    """Read all results of a folder and its subfolders, in the order of their names."""
    paths = sorted(path for table in TABLES for path in (folder / table).glob("*/*.json"))
    return [read_result(path) for path in paths]


def _rounded(record: dict[str, float]) -> dict[str, float]:
    """Round the figures, so that a file of results stays small."""
    return {name: significant(value, DIGITS) if isinstance(value, float) else value for name, value in record.items()}


def _text(record: dict[str, object]) -> str:
    """Write JSON with a line for each field and each item of a list, which is readable and gives short diffs."""
    return "{\n" + ",\n".join(_lines(record)) + "\n}\n"


def _lines(record: dict[str, object]) -> Iterator[str]:
    for name, value in record.items():
        if isinstance(value, list) and value:
            items = ",\n".join(f"    {json.dumps(item)}" for item in value)
            yield f'  "{name}": [\n{items}\n  ]'
        else:
            yield f'  "{name}": {json.dumps(value)}'
