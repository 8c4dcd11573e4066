"""What a finished job leaves for publication: one JSON file, from which tables, figures and the report are made.

Reading results needs no torch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jsa.errors import UsageError
from jsa.evaluation.results import Likelihood, LogVariance
from jsa.experiments.jobs import Job, Places
from jsa.experiments.tables import TABLES
from jsa.io.atomic_files import write_text
from jsa.io.json_records import from_record, read_json, to_record
from jsa.io.provenance import Provenance
from jsa.runs.config import TrainConfig

FORMAT = 1
DIGITS = 7
"""Significant digits of the figures of a curve."""


@dataclass(frozen=True)
class Screened:
    """A leading epoch: its NLL on the validation rows by the samples of a screening, and scored again."""

    epoch: int
    screened_nll: float
    rescored: Likelihood


@dataclass(frozen=True)
class Point:
    """A validation on the way of a run; what a method does not have is none.

    Attributes:
        epoch: The epoch.
        training_seconds: Wall-clock time of the steps so far, without validations.
        processor_seconds: Their processor time, which other work on the machine does not lengthen.
        decoder_evaluations: States that the steps passed through the joint density so far, each row for itself.
        valid_nll: By the samples of a screening.
        train_nll, test_nll: Of the rows that are followed, by as many samples as the test.
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
    """The variance of the gradients at an epoch, given the states of the chains where these persist.

    It is none where no gradient differed from another: JSON has no number for the logarithm of zero.
    """

    epoch: int
    theta: LogVariance | None
    phi: LogVariance | None


@dataclass(frozen=True)
class Result:
    """The result of a job."""

    job: Job
    command: str
    config: TrainConfig
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

    @property
    def valid(self) -> Likelihood:
        """The score of the best epoch on the validation rows, by as many samples as the test."""
        return next(found.rescored for found in self.leading if found.epoch == self.best_epoch)

    @property
    def switch_epoch(self) -> int | None:
        """The last epoch of stage I; none where the chains did not persist. Validations may be too rare to show it."""
        return self.config.switch_epoch if any(point.stage == 2 for point in self.curve) else None


def write_result(result: Result, path: Path) -> None:
    """Writes a result whole or not at all. Where the data was on this machine is nobody's business."""
    text = _text({"format": FORMAT, **to_record(replace(result, config=result.config.anywhere))})
    # One file that cannot be read would keep all others out of tables and figures.
    _result(json.loads(text), path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)


def read_result(path: Path) -> Result:
    """The result in a file, which may be anybody's."""
    return _result(read_json(path), path)


def _result(record: object, path: Path) -> Result:
    """The result that a record describes, which is or will be in a file."""
    if not isinstance(record, dict) or record.pop("format", None) != FORMAT:
        raise UsageError(f"{path} is no result that this version of jsa reads: make it again")
    try:
        result = from_record(Result, _with_present_names(record))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    if result.best_epoch not in {found.epoch for found in result.leading}:
        raise UsageError(f"{path}: its best epoch {result.best_epoch} is none of its leading ones: make it again")
    if not result.job.made_with(result.config):
        raise UsageError(
            f"{path} was made with other settings than this version has for its cell: move it away and make it again "
            f"with {result.job.command}"
        )
    return result


NAMES_OF_0_1_0 = {"optimisation": "optimization", "optimiser": "optimizer", "initialisation": "initialization"}
"""Fields that version 0.1.0 spelled otherwise."""


def _with_present_names(record: Any) -> Any:
    """A record of version 0.1.0 with the names of today."""
    if isinstance(record, dict):
        return {NAMES_OF_0_1_0.get(name, name): _with_present_names(value) for name, value in record.items()}
    return [_with_present_names(item) for item in record] if isinstance(record, list) else record


def is_done(job: Job, places: Places) -> bool:
    """Whether the result of a job is there; that of another job of the same name is refused."""
    path = places.result(job)
    if not path.is_file():
        return False
    found = read_result(path).job
    if found != job:
        raise UsageError(f"{path} is the result of another job ({found.command}): choose another folder with --results")
    return True


def read_results(folder: Path) -> list[Result]:
    """All results of a folder and of those inside it, in the order of their names."""
    paths = sorted(path for table in TABLES for path in (folder / table).glob("*/*.json"))
    return [read_result(path) for path in paths]


def significant(record: dict[str, float]) -> dict[str, float]:
    """The figures with a few significant digits, so that a file of results stays small."""
    return {name: float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value for name, value in record.items()}


def mean_and_deviation(values: Iterable[float]) -> tuple[float, float | None]:
    """The mean over seeds and, for two or more of them, the standard deviation.

    >>> mean_and_deviation([1.0, 3.0])
    (2.0, 1.4142135623730951)
    """
    known = list(values)
    mean = sum(known) / len(known)
    if len(known) < 2:
        return mean, None
    return mean, math.sqrt(sum((value - mean) ** 2 for value in known) / (len(known) - 1))


def _text(record: dict[str, object]) -> str:
    """JSON with a line for each field, and one for each item of a list: readable, and short in a comparison."""
    return "{\n" + ",\n".join(_lines(record)) + "\n}\n"


def _lines(record: dict[str, object]) -> Iterator[str]:
    for name, value in record.items():
        if isinstance(value, list) and value:
            items = ",\n".join(f"    {json.dumps(item)}" for item in value)
            yield f'  "{name}": [\n{items}\n  ]'
        else:
            yield f'  "{name}": {json.dumps(value)}'
