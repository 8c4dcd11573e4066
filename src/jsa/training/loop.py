"""The training loop."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from jsa.configuration import OptimiserConfig, TrainConfig
from jsa.data import Dataset, batches_in_epoch, epoch_order
from jsa.errors import NumericalError
from jsa.estimators import Estimator, PersistentEstimator
from jsa.evaluation.likelihood import Progress, Rows, likelihood
from jsa.learner import Learner
from jsa.model import LatentVariableModel
from jsa.training.checkpoint import save_weights
from jsa.training.folder import RunFolder
from jsa.training.schedule import learning_rate
from jsa.training.selection import BestEpoch
from jsa.training.stages import check_rows_stay, set_stage
from jsa.types import Batch, Estimate


class Watcher(Protocol):
    """Who is told how the training goes."""

    def step(self, epoch: int) -> None:
        """A step was made."""
        ...

    def validating(self, rows: int) -> Progress:
        """A validation begins; the answer is told how many rows are done."""
        ...

    def epoch(self, record: Mapping[str, object]) -> None:
        """An epoch ended, with these figures."""
        ...


def train(
    model: LatentVariableModel,
    estimator: Estimator,
    rows: Dataset,
    valid: Rows,
    config: TrainConfig,
    folder: RunFolder,
    watcher: Watcher,
) -> BestEpoch:
    """Trains, validates, and leaves the best and the last weights in the run folder.

    Returns:
        The epoch with the lowest validation NLL.
    """
    check_rows_stay(config, type(estimator), rows.rows_change)
    device = torch.device(config.machine.device)
    learner = Learner(model, estimator).to(device).train()
    optimiser = make_optimiser(learner, config.optimisation)
    average = _weight_average(model, config.optimisation.average_decay)
    evaluated = model if average is None else cast(LatentVariableModel, average.module)
    best = BestEpoch()
    step, steps = 0, config.epochs * batches_in_epoch(len(rows), config.batch_size)
    started = time.monotonic()

    for epoch in range(1, config.epochs + 1):
        stage = set_stage(config, estimator, epoch, best)
        rows.start_epoch(epoch)
        means = Means()
        for index in epoch_order(len(rows), config.batch_size, config.seed, epoch, config.scan):
            rate = learning_rate(config.optimisation, step, steps)
            for group in optimiser.param_groups:
                group["lr"] = rate
            step += 1
            with _located(epoch, step, folder):
                batch = rows.batch(index, device)
                estimate = learner(batch)
                _refuse_non_finite(estimate, batch)
                optimiser.zero_grad(set_to_none=True)
                estimate.loss.backward()
                optimiser.step()
            if average is not None:
                average.update_parameters(model)
            means.add(estimate)
            watcher.step(epoch)

        record: dict[str, object] = {"epoch": epoch, "step": step, "learning_rate": rate, **means.values()}
        if stage is not None:
            record["stage"] = stage
        validated = epoch % config.validation.validate_every == 0 or epoch == config.epochs
        with _located(epoch, step, folder):
            if validated:
                result = likelihood(
                    evaluated,
                    valid,
                    config.validation.validation_samples,
                    seed=config.seed,
                    device=device,
                    progress=watcher.validating(len(valid)),
                )
                record |= {
                    "valid_nll": result.nll,
                    "valid_effective_sample_size": result.effective_sample_size,
                }
                if best.record(epoch, result.nll):
                    save_weights(evaluated, folder.best, record)
            save_weights(evaluated, folder.last, record)
        if isinstance(estimator, PersistentEstimator) and not config.machine.mapped_chains and validated:
            estimator.cache.save(folder.chains)
        record["seconds"] = round(time.monotonic() - started, 3)
        folder.log(record)
        watcher.epoch(record)
        patience = config.validation.stop_after
        if patience is not None and best.validations_without_gain >= patience:
            break
    return best


class Means:
    """The means of the scalars of many steps, kept as tensors so that no step waits for a device."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._steps = 0

    def add(self, estimate: Estimate) -> None:
        """Takes the scalars of a step."""
        self._steps += 1
        for name, value in {"objective": estimate.objective, **estimate.diagnostics}.items():
            self._sums[name] = self._sums[name] + value if name in self._sums else value.clone()

    def values(self) -> dict[str, float]:
        """The means since the beginning."""
        return {name: float(total) / self._steps for name, total in self._sums.items()}


def make_optimiser(learner: nn.Module, config: OptimiserConfig) -> torch.optim.Optimizer:
    """The optimiser of all parameters that are to be learned."""
    parameters = [parameter for parameter in learner.parameters() if parameter.requires_grad]
    kind = torch.optim.Adam if config.optimiser == "adam" else torch.optim.SGD
    return kind(parameters, lr=config.learning_rate, fused=True)


def _weight_average(model: LatentVariableModel, decay: float | None) -> AveragedModel | None:
    if decay is None:
        return None
    return AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))


def _refuse_non_finite(estimate: Estimate, batch: Batch) -> None:
    if bool(estimate.loss.isfinite()):
        return
    impossible = (estimate.log_weights.amax(0) == -torch.inf).nonzero()
    if len(impossible):
        row = int(batch.index[impossible[0]])
        raise NumericalError(f"the model gives probability zero to row {row} with every state that was drawn")
    raise NumericalError(f"the loss is {float(estimate.loss.detach())} (the objective is {float(estimate.objective)})")


@contextmanager
def _located(epoch: int, step: int, folder: RunFolder) -> Iterator[None]:
    """Says where in the training a number went wrong, and what is left of the run."""
    try:
        yield
    except NumericalError as error:
        rescue = f"the last good checkpoint is {folder.last}" if folder.last.exists() else "there is no checkpoint yet"
        raise NumericalError(
            f"at step {step} (epoch {epoch}) {error}; {rescue}. A lower --learning-rate often helps"
        ) from error
