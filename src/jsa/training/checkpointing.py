"""When the state of a training is saved, and what an error says about how to continue."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from jsa.errors import CheckpointError, JsaError, NumericalError
from jsa.training.config import TrainingConfig
from jsa.training.folder import TrainingFolder
from jsa.training.state import State


class Checkpointer:
    """Saves the state of a training now and then. If the folder has a state already, the training continues from it.

    Args:
        state: The state.
        folder: Where it is saved.
        config: How often it is saved, and what could be changed after an error.
    """

    def __init__(self, state: State, folder: TrainingFolder, config: TrainingConfig) -> None:
        self._state, self._folder, self._config = state, folder, config
        self._saved_step: int | None = None
        if folder.state.is_file():
            state.load(folder.state)
            self._saved_step = state.progress.step
        self._seconds_before = state.progress.seconds
        self._started = self._saved_at = time.monotonic()

    @property
    def seconds(self) -> float:
        """Wall-clock time of the training so far, in all processes that it ran in."""
        return self._seconds_before + time.monotonic() - self._started

    def save(self) -> None:
        """Save the state."""
        self._state.progress.seconds = self.seconds
        with self.writing():
            self._state.save(self._folder.state)
        self._saved_at = time.monotonic()
        self._saved_step = self._state.progress.step

    def save_if_due(self) -> None:
        """Save the state if the last checkpoint is as old as the configuration allows."""
        if time.monotonic() - self._saved_at >= self._config.checkpoints.checkpoint_seconds:
            self.save()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """If the disk is full or fails inside this block, say what is left of the training."""
        try:
            yield
        except (OSError, CheckpointError) as error:
            reason = str(error) if isinstance(error, JsaError) else f"a file could not be written ({error})"
            raise CheckpointError(
                f"{reason}; {self._kept}. Make room on the disk, then continue with: {self._folder.continue_with}"
            ) from error

    @contextmanager
    def located(self, step: int) -> Iterator[None]:
        """If a number is not finite inside this block, say where in the training, and how to continue."""
        try:
            yield
        except NumericalError as error:
            method = type(self._state.learner.estimator).__name__
            place = f"at step {step} (epoch {self._state.progress.epoch}) of {method}"
            raise NumericalError(f"{place}: {error}; {self._kept}. {self._advice}") from error

    @property
    def _kept(self) -> str:
        if self._saved_step is None:
            return "there is no checkpoint yet"
        return f"the checkpoint of step {self._saved_step} is whole"

    @property
    def _advice(self) -> str:
        optimization = self._config.optimization
        rate = self._folder.continue_with_setting("learning_rate", f"{optimization.learning_rate / 3:.1g}")
        skip = self._folder.continue_with_setting("non_finite", "skip")
        otherwise = f", or without such batches: {skip}" if optimization.non_finite == "stop" else ""
        return f"Continue with a lower rate: {rate}{otherwise}"
