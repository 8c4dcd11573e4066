"""The training loop."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from typing import cast

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from jsa.batch import Estimate
from jsa.chains import frozen_chains
from jsa.data import Dataset, batches_in_epoch, epoch_order
from jsa.errors import NumericalError
from jsa.estimators import Stage
from jsa.evaluation.likelihood import Likelihood, likelihood
from jsa.evaluation.rows import Rows
from jsa.io.fault_injection import crash_point
from jsa.learner import Learner
from jsa.model import LatentVariableModel
from jsa.model_calls import Counter, counting
from jsa.runs.config import TrainConfig
from jsa.runs.folder import RunFolder
from jsa.runs.identity import identity
from jsa.training.checkpointing import Checkpointer
from jsa.training.finite_checks import refuse_non_finite_step, refuse_non_finite_weights
from jsa.training.optimization import forget_gradients, learned, learning_rate, make_optimizer
from jsa.training.progress import Watcher
from jsa.training.selection import LeadingEpochs
from jsa.training.signals import StopRequest, StopRequestedError
from jsa.training.stages import check_rows_stay, set_stage, still_to_switch
from jsa.training.state import TrainingState, random_states, restore_random_states
from jsa.training.weights import save_weights

SKIPS_IN_A_ROW = 100
"""After so many skipped batches one after the other, something is wrong that no next batch will mend."""


@dataclass(frozen=True)
class TrainingRows:
    """The rows that a training looks at.

    Attributes:
        train: What is learned.
        valid: What finds the best epoch.
        followed: Rows whose NLL is written down at each validation, by name; they select nothing.
    """

    train: Dataset
    valid: Rows
    followed: Mapping[str, Rows] = field(default_factory=dict)


def train(
    learner: Learner,
    rows: TrainingRows,
    config: TrainConfig,
    folder: RunFolder,
    watcher: Watcher,
    stop: StopRequest | None = None,
) -> LeadingEpochs:
    """Trains, validates, and leaves the best and the last weights in the run folder.

    Where the folder holds the state of an earlier training, this one goes on from it as if it had never been stopped.

    Args:
        learner: The model and the method.
        rows: What is learned and what is validated.
        config: How to train.
        folder: Where everything is written; it exists.
        watcher: Who is told how it goes.
        stop: Who may ask to stop between two steps. The state is then written and ``InterruptedRunError`` raised.

    Returns:
        The epochs with the lowest validation NLL.
    """
    check_rows_stay(config, type(learner.estimator), rows.train.rows_change)
    return _Training(learner, rows, config, folder, watcher, stop or StopRequest()).run()


class _Training:
    """One training, with all that its parts have in common."""

    def __init__(
        self,
        learner: Learner,
        rows: TrainingRows,
        config: TrainConfig,
        folder: RunFolder,
        watcher: Watcher,
        stop: StopRequest,
    ) -> None:
        self.model, self.estimator, self.rows = learner.model, learner.estimator, rows
        self.config, self.folder, self.watcher, self.stop = config, folder, watcher, stop
        self.device = torch.device(config.machine.device)
        self.learner = learner.to(self.device).train()
        self.parameters = learned(self.learner)
        self.attempts = Attempts(self.learner, self.device)
        self.optimizer = make_optimizer(self.learner, config.optimization)
        self.average = _weight_average(self.model, config.optimization.average_decay)
        self.evaluated = self.model if self.average is None else cast(LatentVariableModel, self.average.module)
        same = identity(config, rows.train)
        self.state = TrainingState(self.learner, self.optimizer, self.average, self.device, same)
        self.steps = config.epochs * batches_in_epoch(len(rows.train), config.batch_size)
        self.keeper = Checkpointer(self.state, folder, config)
        self.state.standing.leading.kept = config.validation.leading_epochs
        folder.cut_metrics(self.state.standing.metrics_bytes)
        self.counter = Counter()

    def run(self) -> LeadingEpochs:
        """Goes on from wherever the training stands to its end."""
        at = self.state.standing
        self.watcher.start(at.epoch, at.step)
        try:
            while not at.finished:
                if at.ended is None:
                    with counting() as self.counter:
                        self._make_steps()
                    self._end_epoch()
                self._write_epoch()
        except StopRequestedError:
            self.keeper.keep()
            where = f"at step {at.step} (epoch {at.epoch})"
            raise self.stop.interrupted(where, self.folder.resume_command) from None
        return at.leading

    def _make_steps(self) -> None:
        """Makes the steps that are left of the epoch."""
        at = self.state.standing
        stage = self._stage()
        set_stage(self.config, self.estimator, at.epoch, at.leading)
        if self._stage() != stage:
            crash_point("switch")
        self.rows.train.start_epoch(at.epoch)
        order = epoch_order(len(self.rows.train), self.config.batch_size, self.config.seed, at.epoch, self.config.scan)
        for index in islice(order, at.batches, None):
            began, processor, self.counter.states = time.monotonic(), time.process_time(), 0
            with self._located(at.step + 1):
                sound = self._try_step(index)
            at.training_seconds += time.monotonic() - began
            at.processor_seconds += time.process_time() - processor
            at.decoder_evaluations += self.counter.states
            at.step += 1
            at.batches += 1
            at.skipped_in_a_row = 0 if sound else at.skipped_in_a_row + 1
            at.skipped += not sound
            if self._stage() == 2:
                crash_point("step-in-stage-two")
            crash_point("step")
            self.watcher.step(at.epoch)
            self.keeper.keep_if_due()
            self.stop.check()

    def _try_step(self, index: Tensor) -> bool:
        """Makes a step, or leaves everything as it was: says whether it was made."""
        at = self.state.standing
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate(at.step)
        batch = self.rows.train.batch(index, self.device)
        self.attempts.begin()
        try:
            estimate: Estimate = self.learner(batch)
            forget_gradients(self.parameters.values())
            estimate.loss.backward()
            refuse_non_finite_step(estimate, batch, self.parameters)
        except NumericalError as error:
            may_skip = self.config.optimization.non_finite == "skip"
            skip = may_skip and at.skipped_in_a_row < SKIPS_IN_A_ROW
            # A step that stops the run is made again when the run is continued, so it finds the same random numbers.
            self.attempts.take_back(random=not skip)
            refuse_non_finite_weights(self.learner)
            if skip:
                return False
            if may_skip:
                raise NumericalError(f"{SKIPS_IN_A_ROW} batches in a row were skipped, and now {error}") from error
            raise
        self.optimizer.step()
        if self.average is not None:
            self.average.update_parameters(self.model)
        at.means.add(estimate)
        return True

    def _end_epoch(self) -> None:
        """Takes the figures of the epoch, with a validation where one is due."""
        at, validation = self.state.standing, self.config.validation
        record: dict[str, object] = {"epoch": at.epoch, "step": at.step, "learning_rate": self._rate(at.step - 1)}
        record |= at.means.values()
        if self.estimator.stage is not None:
            record["stage"] = self._stage()
        if self.config.optimization.non_finite == "skip":
            record["skipped"] = at.skipped
        leads = False
        if at.epoch % validation.validate_every == 0 or at.epoch == self.config.epochs:
            crash_point("validation")
            self.keeper.keep_if_due()
            with self._located(at.step):
                result, followed = self._validate()
            record |= {"valid_nll": result.nll, "valid_effective_sample_size": result.effective_sample_size}
            record |= followed
            leads = at.leading.record(at.epoch, result.nll)
            record |= self._frozen_chains()
        record["decoder_evaluations"] = at.decoder_evaluations
        record["training_seconds"] = round(at.training_seconds, 3)
        record["processor_seconds"] = round(at.processor_seconds, 3)
        record["seconds"] = round(self.keeper.seconds, 3)
        at.ended = record
        # Leading weights are written after a state that knows of them, so that the two always belong together; and a
        # snapshot is a copy of the state.
        if leads or self._snapshot_is_due():
            self.keeper.keep()
        else:
            self.keeper.keep_if_due()

    def _validate(self) -> tuple[Likelihood, dict[str, float]]:
        """The likelihood of the validation rows, and the NLL of the rows that are followed."""
        validation, followed = self.config.validation, self.rows.followed
        parts: Sequence[Rows] = (self.rows.valid, *followed.values())
        progress = self.stop.interrupting(self.watcher.validating(sum(map(len, parts))))

        def evaluate(rows: Rows, samples: int) -> Likelihood:
            return likelihood(
                self.evaluated, rows, samples, seed=self.config.seed, device=self.device, progress=progress
            )

        result = evaluate(self.rows.valid, validation.validation_samples)
        nlls = {f"{name}_nll": evaluate(rows, validation.test_samples).nll for name, rows in followed.items()}
        return result, nlls

    def _snapshot_is_due(self) -> bool:
        every = self.config.machine.snapshot_every
        return every is not None and self.state.standing.epoch % every == 0

    def _frozen_chains(self) -> dict[str, object]:
        """How many chains stand still, once they persist, and a word about it where they are too many."""
        if self.estimator.chains is None or self.estimator.stage != Stage.PERSISTENT:
            return {}
        frozen = frozen_chains(self.estimator.chains)
        if frozen.warning is not None:
            self.watcher.note(frozen.warning)
        return {"frozen_after_20_passes": frozen.shares[20]}

    def _write_epoch(self) -> None:
        """Writes weights and figures of an epoch that has ended. Doing it again after a crash gives the same files."""
        at = self.state.standing
        record = at.ended or {}
        crash_point("epoch-end")
        with self._located(at.step), self.keeper.writing():
            if self._snapshot_is_due():
                self.folder.take_snapshot(at.epoch)
            self._write_leading(record)
            save_weights(self.evaluated, self.folder.last, record)
            length = self.folder.log(record, at.metrics_bytes)
        self.watcher.epoch(record)
        patience = self.config.validation.stop_after
        early = patience is not None and at.leading.validations_without_gain >= patience
        early = early and not still_to_switch(self.config, self.estimator)
        at.finished = early or at.epoch == self.config.epochs
        at.next_epoch(length)
        if at.finished:
            self.keeper.keep()
        else:
            self.keeper.keep_if_due()
        crash_point("epoch-begin")

    def _write_leading(self, record: Mapping[str, object]) -> None:
        """Writes the weights of this epoch if it leads, and removes those of epochs that lead no more."""
        leading, epoch = self.state.standing.leading, self.state.standing.epoch
        if leading.best.epoch == epoch:
            save_weights(self.evaluated, self.folder.best, record)
        if leading.kept > 1:
            epochs = [found.epoch for found in leading.epochs]
            if epoch in epochs:
                self.folder.leading.mkdir(exist_ok=True)
                save_weights(self.evaluated, self.folder.leading_epoch(epoch), record)
            self.folder.keep_leading(epochs)

    def _stage(self) -> int | None:
        return None if self.estimator.stage is None else int(self.estimator.stage)

    def _rate(self, step: int) -> float:
        return learning_rate(self.config.optimization, step, self.steps)

    def _located(self, step: int) -> AbstractContextManager[None]:
        return self.keeper.located(step, type(self.estimator).__name__)


def _weight_average(model: LatentVariableModel, decay: float | None) -> AveragedModel | None:
    if decay is None:
        return None
    return AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))


class Attempts:
    """Remembers, before each step, what the step changes before it is known to be sound: random state, buffers, chains.

    Parameters and optimizer are not among it, because they change only after the step was found sound.

    Args:
        learner: The model and its estimator.
        device: Where the training runs.
    """

    def __init__(self, learner: Learner, device: torch.device) -> None:
        # Looked for once: walking through all modules would cost as much as a small step.
        self._owners = [module for module in learner.modules() if any(True for _ in module.buffers(recurse=False))]
        self._chains = learner.estimator.chains
        self._device = device
        self.begin()

    def begin(self) -> None:
        """A step begins."""
        self._random = random_states(self._device)
        self._visits = 0 if self._chains is None else self._chains.visits
        self._buffers = [
            (owner, name, buffer.clone())
            for owner in self._owners
            for name, buffer in owner.named_buffers(recurse=False)
        ]

    @torch.no_grad()
    def take_back(self, *, random: bool) -> None:
        """Puts back buffers and chains, and the random state too if the same step is to be made again."""
        for owner, name, before in self._buffers:
            owner.get_buffer(name).copy_(before)
        if self._chains is not None:
            self._chains.undo(self._visits)
        if random:
            restore_random_states(self._random, self._device)
