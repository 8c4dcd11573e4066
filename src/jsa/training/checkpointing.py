"""When the state of a training is written, and what is said where something fails: what is kept, and how to go on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from jsa.errors import CheckpointError, JsaError, NumericalError
from jsa.runs.config import TrainConfig
from jsa.runs.folder import RunFolder
from jsa.training.finite_checks import NonFiniteWeightsError
from jsa.training.state import TrainingState


class Checkpointer:
    """Writes the state of a training now and then; where the folder has one, the training stands there from now on.

    Args:
        state: The state.
        folder: Where it is kept.
        config: How often it is written, and what could be done otherwise after an error.
    """

    def __init__(self, state: TrainingState, folder: RunFolder, config: TrainConfig) -> None:
        self._state, self._folder, self._config = state, folder, config
        self._kept_step: int | None = None
        if folder.state.is_file():
            state.load(folder.state)
            self._kept_step = state.standing.step
        self._seconds_before = state.standing.seconds
        self._started = self._kept_at = time.monotonic()

    @property
    def seconds(self) -> float:
        """Wall-clock time of the training so far, in all processes that it ran in."""
        return self._seconds_before + time.monotonic() - self._started

    def keep(self) -> None:
        """Writes the state."""
        self._state.standing.seconds = self.seconds
        with self.writing():
            self._state.save(self._folder.state)
        self._kept_at = time.monotonic()
        self._kept_step = self._state.standing.step

    def keep_if_due(self) -> None:
        """Writes the state if it was not written for as long as the configuration says."""
        if time.monotonic() - self._kept_at >= self._config.machine.checkpoint_seconds:
            self.keep()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Says what is left of the run where the disk is full or fails."""
        try:
            yield
        except (OSError, CheckpointError) as error:
            reason = str(error) if isinstance(error, JsaError) else f"a file could not be written ({error})"
            raise CheckpointError(
                f"{reason}; {self._kept}. Make room on the disk, then continue with: {self._folder.resume_command}"
            ) from error

    @contextmanager
    def located(self, step: int, method: str) -> Iterator[None]:
        """Says where in the training a number went wrong, and how to go on from the state before it."""
        try:
            yield
        except NumericalError as error:
            place = f"at step {step} (epoch {self._state.standing.epoch}) of {method}"
            # Weights that the step before this one spoilt are not kept: the last checkpoint is older and sound.
            with suppress(NonFiniteWeightsError):
                self.keep()
            raise NumericalError(f"{place}: {error}; {self._kept}. {self._advice}") from error

    @property
    def _kept(self) -> str:
        if self._kept_step is None:
            return "there is no checkpoint yet"
        return f"the checkpoint of step {self._kept_step} is whole"

    @property
    def _advice(self) -> str:
        if self._kept_step is None:
            return "A lower --learning-rate often helps"
        resume, optimization = self._folder.resume_command, self._config.optimization
        rate = f"{resume} --learning-rate {optimization.learning_rate / 3:.1g}"
        skip = f", or without such batches: {resume} --non-finite skip" if optimization.non_finite == "stop" else ""
        return f"Continue with a lower rate: {rate}{skip}"
