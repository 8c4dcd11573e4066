"""Callbacks for training progress: figures, files and displays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jsa.chains import frozen_chains
from jsa.estimators import Stage
from jsa.evaluation.likelihood import Likelihood
from jsa.evaluation.rows import Rows
from jsa.training.config import TrainingConfig
from jsa.training.folder import TrainingFolder
from jsa.training.state import State
from jsa.training.weights import save_weights

Evaluate = Callable[[Rows, int], Likelihood]
"""Estimates the likelihood of rows with so many samples each under the model that is validated."""

Note = Callable[[str], None]
"""Tells all callbacks a sentence that whoever trains should read."""


class Callback:
    """The moments of a training. Each method does nothing: override those you need."""

    def start(self, state: State) -> None:
        """Handle the start of the training, or of its continuation from this state."""

    def step(self, state: State) -> None:
        """Handle a step that was made or skipped."""

    def validating(self, done: int, rows: int) -> None:
        """Handle the progress of an evaluation: so many of its rows are done."""

    def validated(self, state: State, record: dict[str, object], evaluate: Evaluate, note: Note) -> None:
        """Handle a validation: add further figures to the record of the epoch, or note what should be known."""

    def needs_checkpoint(self, state: State) -> bool:
        """Tell whether the state must be saved before ``epoch`` is called."""
        return False

    def epoch(self, state: State, record: Mapping[str, object]) -> bool | None:
        """Handle the end of an epoch, whose weights and metrics are written; return True to end the training with it.

        After a crash it may be called again for the same epoch: whatever it writes must then be the same.
        """
        return None

    def note(self, sentence: str) -> None:
        """Handle a sentence that whoever trains should read."""

    def end(self) -> None:
        """Handle the end of the training, by success or by an error."""


class EachRecord(Callback):
    """Calls a function with the record of each epoch, which may return True to end the training.

    Args:
        function: The function.
    """

    def __init__(self, function: Callable[[Mapping[str, object]], object]) -> None:
        self._function = function

    def epoch(self, state: State, record: Mapping[str, object]) -> bool:
        # Other values mean nothing: what logs figures often returns something.
        return self._function(dict(record)) is True


class FollowedRows(Callback):
    """Record the NLL of further rows at each validation; they select nothing.

    Args:
        rows: The rows by name.
        samples: Importance samples per row.
    """

    def __init__(self, rows: Mapping[str, Rows], samples: int) -> None:
        self._rows, self._samples = rows, samples

    def validated(self, state: State, record: dict[str, object], evaluate: Evaluate, note: Note) -> None:
        for name, rows in self._rows.items():
            record[f"{name}_nll"] = evaluate(rows, self._samples).nll


class FrozenChains(Callback):
    """Record at each validation how many persistent chains stand still, and note if there are too many."""

    def validated(self, state: State, record: dict[str, object], evaluate: Evaluate, note: Note) -> None:
        estimator = state.learner.estimator
        if estimator.chains is None or estimator.stage != Stage.PERSISTENT:
            return
        frozen = frozen_chains(estimator.chains)
        if frozen.warning is not None:
            note(frozen.warning)
        record["frozen_after_20_passes"] = frozen.shares[20]


class LeadingWeights(Callback):
    """Keep the weights of the leading epochs, to score them again after training."""

    def __init__(self, folder: TrainingFolder) -> None:
        self._folder = folder

    def epoch(self, state: State, record: Mapping[str, object]) -> None:
        epochs = [found.epoch for found in state.progress.leading.epochs]
        if state.progress.epoch in epochs:
            self._folder.leading.mkdir(exist_ok=True)
            save_weights(state.evaluated, self._folder.leading_epoch(state.progress.epoch), record)
        self._folder.keep_leading(epochs)


class Snapshots(Callback):
    """Keep the whole state of every N-th epoch."""

    def __init__(self, folder: TrainingFolder, every: int) -> None:
        self._folder, self._every = folder, every

    def needs_checkpoint(self, state: State) -> bool:
        return state.progress.epoch % self._every == 0

    def epoch(self, state: State, record: Mapping[str, object]) -> None:
        if self.needs_checkpoint(state):
            self._folder.take_snapshot(state.progress.epoch)


def configured(config: TrainingConfig, folder: TrainingFolder, followed: Mapping[str, Rows]) -> Sequence[Callback]:
    """Return the callbacks that a configuration asks for.

    Args:
        config: The configuration.
        folder: The folder of the training.
        followed: The rows to follow, by name.
    """
    found: list[Callback] = [FollowedRows(followed, config.validation.test_samples), FrozenChains()]
    if config.validation.leading_epochs > 1:
        found.append(LeadingWeights(folder))
    if config.checkpoints.snapshot_every is not None:
        found.append(Snapshots(folder, config.checkpoints.snapshot_every))
    return found
