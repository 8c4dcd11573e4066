"""After training: re-score the leading epochs and test the best one."""

from __future__ import annotations

import math

from jsa.evaluation.likelihood import Likelihood, likelihood
from jsa.evaluation.rows import Rows, Subset
from jsa.model import LatentVariableModel
from jsa.runs.config import RunConfig
from jsa.runs.folder import RunFolder
from jsa.runs.rows import RunRows
from jsa.runs.scores import Scores, read_rescored, read_scores, write_rescored, write_scores
from jsa.training.progress import evaluation_progress
from jsa.training.selection import LeadingEpochs, ValidatedEpoch
from jsa.training.signals import StopRequest
from jsa.training.weights import load_weights, save_weights


class Scoring:
    """Scores the leading epochs of a finished training. Whatever was scored before a stop is kept.

    Args:
        config: The configuration of the run.
        rows: Its data.
        model: Its model, which gets the weights of the best epoch.
        folder: Its folder.
        stop: A request to stop.
    """

    def __init__(
        self, config: RunConfig, rows: RunRows, model: LatentVariableModel, folder: RunFolder, stop: StopRequest
    ) -> None:
        self.config, self.rows, self.model, self.folder, self.stop = config, rows, model, folder, stop

    def score(self, leading: LeadingEpochs) -> Scores:
        """Find the best epoch and test it."""
        best, samples = leading.best, self.config.validation.validation_samples
        if leading.kept > 1 and self.rows.valid is not None:
            best, samples = self._rescored(leading, self.rows.valid), self.config.validation.test_samples
        notes = load_weights(self.model, self.folder.best)
        if not leading.epochs:
            # Nothing was validated, and the best epoch is the last one.
            best = ValidatedEpoch(math.nan, int(str(notes["epoch"])))
        if self.folder.evaluation.is_file():
            return read_scores(self.folder)
        test = None if self.rows.test is None else self._likelihood(self.rows.test, "test")
        scores = Scores(best, samples, test)
        write_scores(self.folder, scores)
        return scores

    def _rescored(self, leading: LeadingEpochs, validation_rows: Rows) -> ValidatedEpoch:
        """Return the best leading epoch by as many samples as the test has; its weights become the best ones."""
        valid = Subset.spread(validation_rows, self.config.validation.validation_rows)
        known = read_rescored(self.folder)
        for screened in leading.epochs:
            if screened.epoch not in known:
                load_weights(self.model, self.folder.leading_epoch(screened.epoch))
                known[screened.epoch] = self._likelihood(valid, f"epoch {screened.epoch} again")
                write_rescored(self.folder, known)
        best = min(ValidatedEpoch(found.nll, epoch) for epoch, found in known.items())
        notes = load_weights(self.model, self.folder.leading_epoch(best.epoch))
        save_weights(self.model, self.folder.best, {name: notes[name] for name in notes if name != "format"})
        return best

    def _likelihood(self, rows: Rows, label: str) -> Likelihood:
        samples = self.config.validation.test_samples
        with evaluation_progress(len(rows), label) as progress:
            watched = self.stop.interrupting(progress)
            return likelihood(self.model, rows, samples, seed=self.config.seed, progress=watched)
