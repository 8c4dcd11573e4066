"""The scores of a run in the files of its folder. Nothing here needs torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from jsa.errors import CheckpointError, shortened
from jsa.evaluation.results import Likelihood, figures_record
from jsa.io.json_records import read_json, write_json
from jsa.runs.folder import RunFolder
from jsa.training.selection import ValidatedEpoch

UNKNOWABLE = ("row_error", "monte_carlo_error", "upward_bias")
"""Figures that one row or one sample does not give: null in the files, NaN in the program."""


@dataclass(frozen=True)
class Scores:
    """The best epoch of a run, the samples of its validation NLL, and its test figures.

    Without validation rows the best epoch is the last one, and its NLL is NaN; without test rows ``test`` is None.
    """

    best: ValidatedEpoch
    validation_samples: int
    test: Likelihood | None


def write_scores(folder: RunFolder, scores: Scores) -> None:
    """Write the scores of a run."""
    summary = {
        "best_epoch": scores.best.epoch,
        "valid_nll": None if math.isnan(scores.best.nll) else scores.best.nll,
        "valid_samples": scores.validation_samples,
        "test": None if scores.test is None else figures_record(scores.test),
    }
    write_json(folder.evaluation, summary)


def read_scores(folder: RunFolder) -> Scores:
    """Read the scores of a run."""
    record = read_json(folder.evaluation)
    try:
        valid, test = record["valid_nll"], record["test"]
        best = ValidatedEpoch(math.nan if valid is None else float(valid), int(record["best_epoch"]))
        return Scores(best, int(record["valid_samples"]), None if test is None else _figures(test))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(
            f"{folder.evaluation} is damaged ({shortened(error)}): delete it and continue with {folder.continue_with}"
        ) from error


def write_rescored(folder: RunFolder, known: Mapping[int, Likelihood]) -> None:
    """Write the likelihoods of re-scored epochs."""
    write_json(folder.rescored, {epoch: figures_record(found) for epoch, found in known.items()})


def read_rescored(folder: RunFolder) -> dict[int, Likelihood]:
    """Read the likelihoods of re-scored epochs, by epoch."""
    if not folder.rescored.is_file():
        return {}
    record = read_json(folder.rescored)
    try:
        return {int(epoch): _figures(found) for epoch, found in record.items()}
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(
            f"{folder.rescored} is damaged ({shortened(error)}): delete it and continue with {folder.continue_with}"
        ) from error


def _figures(record: Any) -> Likelihood:
    kinds = {field.name: int if field.type == "int" else float for field in fields(Likelihood)}
    figures: dict[str, Any] = {
        name: math.nan if record[name] is None and name in UNKNOWABLE else kind(record[name])
        for name, kind in kinds.items()
    }
    return Likelihood(**figures)
