"""The training loop, top to bottom: a training, an epoch, a step, a validation, and what an epoch publishes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from jsa.batch import Batch, Estimate
from jsa.data import batches_in_epoch, epoch_order
from jsa.errors import NumericalError, UsageError
from jsa.evaluation.likelihood import Likelihood, likelihood
from jsa.evaluation.rows import Changing, Rows, batches, row_weights
from jsa.io.fault_injection import crash_point
from jsa.learner import Learner
from jsa.model_calls import Counter, counting
from jsa.training.callbacks import Callback, configured
from jsa.training.checkpointing import Checkpointer
from jsa.training.config import TrainingConfig
from jsa.training.finite_checks import refuse_non_finite_step, refuse_non_finite_weights
from jsa.training.folder import TrainingFolder
from jsa.training.optimization import (
    MakeOptimizer,
    described,
    forget_gradients,
    learned,
    learning_rate_share,
    make_optimizer,
)
from jsa.training.selection import LeadingEpochs
from jsa.training.signals import StopRequest, StopRequestedError
from jsa.training.stages import check_rows_stay, set_stage, still_to_switch
from jsa.training.state import Progress, State
from jsa.training.weights import save_weights

SKIPS_IN_A_ROW = 100
"""After so many batches skipped in a row, something is wrong that no next batch will mend."""


@dataclass(frozen=True)
class TrainingRows:
    """The rows of a training.

    Attributes:
        train: What is learned. Weights of its rows are scaled to mean one.
        valid: What finds the best epoch; without such rows it is the last one.
        followed: Rows whose NLL is recorded at each validation, by name; they select nothing.
    """

    train: Rows
    valid: Rows | None
    followed: Mapping[str, Rows] = field(default_factory=dict)


def train(
    learner: Learner,
    rows: TrainingRows,
    config: TrainingConfig,
    folder: TrainingFolder,
    callbacks: Sequence[Callback] = (),
    stop: StopRequest | None = None,
    identity: Mapping[str, object] | None = None,
    optimizer: MakeOptimizer | None = None,
) -> LeadingEpochs:
    """Train a learner on the device that it is on, and leave its best and last weights in the folder.

    If the folder holds the state of an earlier training, this one continues from it as if it had never stopped.

    Args:
        learner: The model and the method.
        rows: What is learned and what is validated.
        config: How to train.
        folder: Where everything is written; it exists.
        callbacks: What else happens at the moments of the training.
        stop: A request to stop between two steps. The state is then saved and ``InterruptedRunError`` raised.
        identity: What must be the same when the training continues, by name.
        optimizer: Makes the optimizer of the parameters that are learned, if not the one of the configuration.

    Returns:
        The epochs with the lowest validation NLL; none without validation rows.
    """
    try:
        check_rows_stay(config, type(learner.estimator), rows.train)
        training = Training(learner, rows, config, folder, callbacks, stop or StopRequest(), identity or {}, optimizer)
        return training.run()
    finally:
        for callback in callbacks:
            callback.end()


class Training:
    """One training; the arguments are those of ``train``."""

    def __init__(
        self,
        learner: Learner,
        rows: TrainingRows,
        config: TrainingConfig,
        folder: TrainingFolder,
        callbacks: Sequence[Callback],
        stop: StopRequest,
        identity: Mapping[str, object],
        optimizer: MakeOptimizer | None,
    ) -> None:
        self.learner, self.rows, self.config = learner.train(), rows, config
        self.folder, self.stop = folder, stop
        self.row_weights = row_weights(rows.train)
        self.callbacks = [*configured(config, folder, rows.followed), *callbacks]
        self.steps = config.steps or config.epochs * batches_in_epoch(len(rows.train), config.batch_size)
        self.parameters = learned(learner)
        decay = config.optimization.average_decay
        average = None if decay is None else AveragedModel(learner.model, multi_avg_fn=get_ema_multi_avg_fn(decay))
        self.optimizer = make_optimizer(learner, config.optimization, optimizer)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        if optimizer is not None:
            identity = {**identity, "the optimizer": described(self.optimizer)}
        self.state = State(learner, self.optimizer, average, identity, config.validation.leading_epochs)
        self.checkpointer = Checkpointer(self.state, folder, config)

    @property
    def at(self) -> Progress:
        """Where the training stands."""
        return self.state.progress

    def run(self) -> LeadingEpochs:
        """Continue from wherever the training stands to its end."""
        try:
            for callback in self.callbacks:
                callback.start(self.state)
            self.publish()
            while not self.at.finished:
                self.epoch()
                self.publish()
            return self.at.leading
        except StopRequestedError:
            self.checkpointer.save()
            where = f"at step {self.at.step} (epoch {self.at.epoch})"
            raise self.stop.interrupted(where, self.folder.continue_with) from None

    def epoch(self) -> None:
        """Make the steps that are left of the epoch, validate if it is time, and take its figures."""
        if set_stage(self.config, self.learner.estimator, self.at.epoch, self.at.leading):
            crash_point("switch")
        if isinstance(self.rows.train, Changing):
            self.rows.train.start_epoch(self.at.epoch)
        config = self.config
        order = epoch_order(len(self.rows.train), config.batch_size, config.seed, self.at.epoch, config.scan)
        with counting() as counter:
            left = list(islice(order, self.at.batches, self.at.batches + self.steps - self.at.step))
            read = batches(self.rows.train, left, self.state.device)
            for _ in left:
                self.step(read, counter)
        record = self.figures()
        leads = False
        is_time = self.at.epoch % config.validation.validate_every == 0 or self.at.epoch == config.epochs
        if self.rows.valid is not None and is_time:
            crash_point("validation")
            self.checkpointer.save_if_due()
            leads = self.validation(self.rows.valid, record)
        record["decoder_evaluations"] = self.at.decoder_evaluations
        record["training_seconds"] = round(self.at.training_seconds, 3)
        record["processor_seconds"] = round(self.at.processor_seconds, 3)
        record["seconds"] = round(self.checkpointer.seconds, 3)
        self.at.ended = json.dumps(record)
        self.at.finished = self.at.epoch == config.epochs or self.patience_is_lost
        # Leading weights are written after a state that knows of them, so that the two always belong together.
        if leads or any(callback.needs_checkpoint(self.state) for callback in self.callbacks):
            self.checkpointer.save()

    def step(self, read: Iterator[Batch], counter: Counter) -> None:
        """Make a step, or skip it if it is not finite, and save the state if it is time."""
        began, processor, counter.states = time.monotonic(), time.process_time(), 0
        # Before the step: an estimator may switch by itself when it ends a pass.
        self.at.stage = int(self.learner.stage or 0)
        with self.checkpointer.located(self.at.step + 1):
            skipped = not self.learn(self.weighted(next(read)))
        self.at.training_seconds += time.monotonic() - began
        self.at.processor_seconds += time.process_time() - processor
        self.at.decoder_evaluations += counter.states
        self.at.step += 1
        self.at.batches += 1
        self.at.skipped += skipped
        self.at.skipped_in_a_row = self.at.skipped_in_a_row + 1 if skipped else 0
        if self.learner.stage == 2:
            crash_point("step-in-stage-two")
        crash_point("step")
        for callback in self.callbacks:
            callback.step(self.state)
        self.checkpointer.save_if_due()
        self.stop.check()

    def weighted(self, batch: Batch) -> Batch:
        """Return training rows; if they have weights, with weights whose mean over all training rows is one."""
        if self.row_weights is None:
            if batch.weight is not None:
                raise UsageError("rows have weights, but the first training row has none: give each row one, or none")
            return batch
        weight = self.row_weights[batch.row_numbers].to(batch.x.device, batch.state_dtype)
        return replace(batch, weight=weight)

    def learn(self, batch: Batch) -> bool:
        """Follow the gradient of a batch, and tell whether it was finite; otherwise the optimizer does not see it."""
        optimizer, average = self.optimizer, self.state.average
        share = self.share(self.at.step)
        for group, rate in zip(optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * share
        forget_gradients(self.parameters.values())
        try:
            estimate: Estimate = self.learner(batch)
            estimate.loss.backward()
            refuse_non_finite_step(estimate, batch, self.parameters)
        except NumericalError as error:
            refuse_non_finite_weights(self.learner)
            if self.config.optimization.non_finite == "stop":
                raise
            if self.at.skipped_in_a_row == SKIPS_IN_A_ROW:
                raise NumericalError(f"{SKIPS_IN_A_ROW} batches in a row were skipped, and now {error}") from error
            return False
        optimizer.step()
        if average is not None:
            average.update_parameters(self.learner.model)
        self.state.means.add(estimate)
        return True

    def figures(self) -> dict[str, object]:
        """Return the figures of the steps of the epoch."""
        record: dict[str, object] = {
            "epoch": self.at.epoch,
            "step": self.at.step,
            "learning_rate": self.rates[0] * self.share(self.at.step - 1),
            **self.state.means.values(),
        }
        if self.at.stage:
            record["stage"] = self.at.stage
        if self.config.optimization.non_finite == "skip":
            record["skipped"] = self.at.skipped
        return record

    def validation(self, rows: Rows, record: dict[str, object]) -> bool:
        """Add the figures of a validation to a record, and tell whether the epoch is one of the leading ones."""
        with self.checkpointer.located(self.at.step):
            found = self.evaluate(rows, self.config.validation.validation_samples)
            record |= {"valid_nll": found.nll, "valid_effective_sample_size": found.effective_sample_size}
            for callback in self.callbacks:
                callback.validated(self.state, record, self.evaluate, self.note)
        return self.at.leading.record(self.at.epoch, found.nll)

    def evaluate(self, rows: Rows, samples: int) -> Likelihood:
        """Estimate the likelihood of rows under the model that is validated."""
        done = 0

        def progress(count: int) -> None:
            nonlocal done
            done += count
            for callback in self.callbacks:
                callback.validating(done, len(rows))
            self.stop.check()

        model, device = self.state.evaluated, self.state.device
        return likelihood(model, rows, samples, seed=self.config.seed, device=device, progress=progress)

    def publish(self) -> None:
        """Publish the state, and save it once more after the last epoch."""
        ended = self.at.ended is not None
        with self.checkpointer.located(self.at.step), self.checkpointer.writing():
            publish(self.state, self.folder, self.callbacks)
        if ended and self.at.finished:
            self.checkpointer.save()
        else:
            self.checkpointer.save_if_due()
        if ended:
            crash_point("epoch-begin")

    @property
    def patience_is_lost(self) -> bool:
        """Whether so many validations in a row brought no gain that the training stops early."""
        patience = self.config.validation.stop_after
        if patience is None or still_to_switch(self.config, self.learner.estimator):
            return False
        return self.at.leading.validations_without_gain >= patience

    def share(self, step: int) -> float:
        """Return the share of the initial learning rates that a step has."""
        return learning_rate_share(self.config.optimization, step, self.steps)

    def note(self, sentence: str) -> None:
        """Tell the callbacks something that whoever trains should know."""
        for callback in self.callbacks:
            callback.note(sentence)


def publish(state: State, folder: TrainingFolder, callbacks: Iterable[Callback]) -> None:
    """Make all other files of the folder from the state, at an epoch's end and after each load, and go to the next one.

    Publishing the same state again, after a crash in between, gives the same files.
    """
    at = state.progress
    folder.cut_metrics(at.metrics_bytes)
    record = at.record
    if record is None:
        return
    crash_point("epoch-end")
    if at.leading.best.epoch == at.epoch:
        save_weights(state.evaluated, folder.best, record)
    save_weights(state.evaluated, folder.last, record)
    length = folder.log(record, at.metrics_bytes)
    for callback in callbacks:
        at.finished |= callback.epoch(state, record) is True
    if at.finished and not at.leading.epochs:
        save_weights(state.evaluated, folder.best, record)
    state.next_epoch(length)
