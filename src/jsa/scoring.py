"""What comes behind a training: its leading epochs are scored again, and the best one of them is tested."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from jsa.configuration import TrainConfig
from jsa.data import Splits
from jsa.errors import CheckpointError
from jsa.evaluation.likelihood import Likelihood, Rows, likelihood
from jsa.evaluation.rows import FirstRows
from jsa.files import write_text
from jsa.model import LatentVariableModel
from jsa.records import read_json, to_record
from jsa.training.checkpoint import load_weights, save_weights
from jsa.training.folder import RunFolder
from jsa.training.report import evaluation_progress
from jsa.training.selection import LeadingEpochs, ValidatedEpoch
from jsa.training.signals import StopRequest


@dataclass(frozen=True)
class Scores:
    """The best epoch of a run, what it scored on the validation rows with how many samples, and on the test rows."""

    best: ValidatedEpoch
    validation_samples: int
    test: Likelihood


class Scoring:
    """Scores the leading epochs of a finished training. What was scored before a stop is not scored again.

    Args:
        config: The configuration of the run.
        splits: Its data.
        model: Its model; it has the weights of the best epoch in the end.
        folder: Its folder.
        stop: Who may ask to stop.
    """

    def __init__(
        self, config: TrainConfig, splits: Splits, model: LatentVariableModel, folder: RunFolder, stop: StopRequest
    ) -> None:
        self.config, self.splits, self.model, self.folder, self.stop = config, splits, model, folder, stop

    def score(self, leading: LeadingEpochs) -> Scores:
        """Finds the best epoch and tests it."""
        best, samples = leading.best, self.config.validation.validation_samples
        if leading.kept > 1:
            best, samples = self._rescored(leading), self.config.validation.test_samples
        load_weights(self.model, self.folder.best)
        if self.folder.evaluation.is_file():
            return read_scores(self.folder)
        test = self._likelihood(self.splits.test, "test")
        summary = {"best_epoch": best.epoch, "valid_nll": best.nll, "valid_samples": samples, "test": to_record(test)}
        write_text(self.folder.evaluation, json.dumps(summary, indent=2) + "\n")
        return Scores(best, samples, test)

    def _rescored(self, leading: LeadingEpochs) -> ValidatedEpoch:
        """The best of the leading epochs with as many samples as the test has; its weights become the best ones."""
        valid = FirstRows(self.splits.valid, self.config.validation.validation_rows)
        known = read_rescored(self.folder)
        for screened in leading.epochs:
            if screened.epoch not in known:
                load_weights(self.model, self.folder.leading_epoch(screened.epoch))
                known[screened.epoch] = self._likelihood(valid, f"epoch {screened.epoch} again")
                _write_rescored(self.folder, known)
        best = min(ValidatedEpoch(found.nll, epoch) for epoch, found in known.items())
        notes = load_weights(self.model, self.folder.leading_epoch(best.epoch))
        save_weights(self.model, self.folder.best, {name: notes[name] for name in notes if name != "format"})
        return best

    def _likelihood(self, rows: Rows, label: str) -> Likelihood:
        samples = self.config.validation.test_samples
        with evaluation_progress(len(rows), label) as progress:
            watched = self.stop.interrupting(progress)
            return likelihood(self.model, rows, samples, seed=self.config.seed, progress=watched)


def read_scores(folder: RunFolder) -> Scores:
    """What the scoring of a run came to."""
    record = read_json(folder.evaluation)
    try:
        best = ValidatedEpoch(float(record["valid_nll"]), int(record["best_epoch"]))
        return Scores(best, int(record["valid_samples"]), _figures(record["test"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{folder.evaluation} is damaged ({error}): delete it and continue with {folder.resume_command}"
        ) from error


def read_rescored(folder: RunFolder) -> dict[int, Likelihood]:
    """The likelihoods of the leading epochs that were scored again, by epoch."""
    if not folder.rescored.is_file():
        return {}
    record = read_json(folder.rescored)
    try:
        return {int(epoch): _figures(found) for epoch, found in record.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{folder.rescored} is damaged ({error}): delete it and continue with {folder.resume_command}"
        ) from error


def _write_rescored(folder: RunFolder, known: Mapping[int, Likelihood]) -> None:
    record = {str(epoch): to_record(found) for epoch, found in known.items()}
    write_text(folder.rescored, json.dumps(record, indent=2) + "\n")


def _figures(record: Any) -> Likelihood:
    # One sample cannot tell its own error, and that is NaN, which a checked record does not take.
    kinds = {field.name: int if field.type == "int" else float for field in fields(Likelihood)}
    figures: dict[str, Any] = {name: kind(record[name]) for name, kind in kinds.items()}
    return Likelihood(**figures)
