"""What the scoring of a run came to, in the files of its folder. Nothing here needs torch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from jsa.errors import CheckpointError
from jsa.evaluation.results import Likelihood, figures_record
from jsa.io.atomic_files import write_text
from jsa.io.json_records import read_json
from jsa.runs.folder import RunFolder
from jsa.training.selection import ValidatedEpoch

UNKNOWABLE = ("row_error", "monte_carlo_error", "upward_bias")
"""What one row or one sample cannot tell: null in the files, NaN in the program."""


@dataclass(frozen=True)
class Scores:
    """The best epoch of a run, what it scored on the validation rows with how many samples, and on the test rows."""

    best: ValidatedEpoch
    validation_samples: int
    test: Likelihood


def write_scores(folder: RunFolder, scores: Scores) -> None:
    """Writes what the scoring of a run came to."""
    summary = {
        "best_epoch": scores.best.epoch,
        "valid_nll": scores.best.nll,
        "valid_samples": scores.validation_samples,
        "test": figures_record(scores.test),
    }
    write_text(folder.evaluation, json.dumps(summary, indent=2, allow_nan=False) + "\n")


def read_scores(folder: RunFolder) -> Scores:
    """What the scoring of a run came to."""
    record = read_json(folder.evaluation)
    try:
        best = ValidatedEpoch(float(record["valid_nll"]), int(record["best_epoch"]))
        return Scores(best, int(record["valid_samples"]), _figures(record["test"]))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(
            f"{folder.evaluation} is damaged ({error}): delete it and continue with {folder.resume_command}"
        ) from error


def write_rescored(folder: RunFolder, known: Mapping[int, Likelihood]) -> None:
    """Writes the likelihoods of leading epochs that were scored again, by epoch."""
    record = {str(epoch): figures_record(found) for epoch, found in known.items()}
    write_text(folder.rescored, json.dumps(record, indent=2, allow_nan=False) + "\n")


def read_rescored(folder: RunFolder) -> dict[int, Likelihood]:
    """The likelihoods of the leading epochs that were scored again, by epoch."""
    if not folder.rescored.is_file():
        return {}
    record = read_json(folder.rescored)
    try:
        return {int(epoch): _figures(found) for epoch, found in record.items()}
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(
            f"{folder.rescored} is damaged ({error}): delete it and continue with {folder.resume_command}"
        ) from error


def _figures(record: Any) -> Likelihood:
    kinds = {field.name: int if field.type == "int" else float for field in fields(Likelihood)}
    figures: dict[str, Any] = {
        # Files of earlier versions hold NaN there, which is no JSON, but which Python reads.
        name: math.nan if record[name] is None and name in UNKNOWABLE else kind(record[name])
        for name, kind in kinds.items()
    }
    return Likelihood(**figures)
