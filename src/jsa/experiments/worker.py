"""The work of one job: it trains or continues a run, measures the variances, and writes the result."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from jsa.errors import UsageError
from jsa.estimators import JSA
from jsa.estimators.base import Description
from jsa.estimators.registry import ESTIMATORS
from jsa.evaluation.gradient_variance import gradient_variance
from jsa.evaluation.results import LogVariance
from jsa.experiments.jobs import VARIANCES, Job, Places
from jsa.experiments.results import VariancePoint, read_variances, result_of, write_result
from jsa.front.run import open_run
from jsa.io.atomic_files import remove_leftovers, write_bytes, write_text
from jsa.io.json_records import to_record
from jsa.io.lock import InUseError
from jsa.kernels import Kernel, Target, Trajectory
from jsa.kernels.target import Start
from jsa.learner import Learner
from jsa.runs.build import configured_model, load_splits, resume, train
from jsa.runs.config import RunConfig
from jsa.runs.folder import RunFolder
from jsa.runs.method import Method
from jsa.runs.task import machine
from jsa.training.progress import evaluation_progress
from jsa.training.signals import StopRequest, StopRequestedError
from jsa.training.state import load_learner

STALE_WEIGHT = "jsa-stale-weight"


class StaleWeightJSA(JSA):
    """JSA with the sampler of the published categorical experiment, which never updates the running weight.

    Every proposal is compared with the chain's state at the start of the visit. The invariant distribution of such a
    chain is not the posterior: with many particles it ends near a draw of q whose weight exceeds that of the initial
    state.
    """

    description: ClassVar[Description] = Description(
        optimizes="nothing that is known",
        unbiased="no: its chains do not leave the posterior invariant",
        latents="all",
        decoder_evaluations="n + 1, and a backward over the states visited",
        reference="the program published with Ou & Song, UAI 2020",
    )

    @staticmethod
    def moves_of(particles: int) -> Kernel:
        """Return the moves that never update the weight that acceptance compares with."""
        return _StaleWeight(particles)


class _StaleWeight(Kernel):
    """The moves of the published program: no kernel of the posterior."""

    independent = True

    def __init__(self, proposals: int) -> None:
        super().__init__()
        self.proposals = proposals

    def move(self, target: Target, chains: Start = None, times: int = 1, *, adapt: bool = False) -> Trajectory:
        """Move the chains of a batch without ever updating the weight that acceptance compares with."""
        evaluated = target.candidates(chains, self.proposals)
        uniforms = torch.rand(self.proposals, len(target.batch), dtype=evaluated.h.dtype, device=evaluated.h.device)
        path = stale_weight_path(evaluated.log_weights, uniforms)
        return Trajectory(evaluated, path, tuple(range(1, self.proposals + 1)))


def stale_weight_path(log_weights: Tensor, uniforms: Tensor) -> Tensor:
    """Return the visited states: after each move, the last accepted proposal.

    >>> log_weights = torch.tensor([[0.0], [2.0], [1.0]])
    >>> stale_weight_path(log_weights, torch.tensor([[0.9], [0.9]])).flatten()  # 2 is accepted although 1 is better
    tensor([1, 2])
    """
    accepted = uniforms.log() + log_weights[0] < log_weights[1:]
    numbers = torch.arange(1, len(log_weights), device=log_weights.device).unsqueeze(1)
    return torch.where(accepted, numbers, 0).cummax(0).values


@contextmanager
def published_methods() -> Iterator[None]:
    """Register the method of the published program by its name."""
    ESTIMATORS[STALE_WEIGHT] = StaleWeightJSA
    try:
        yield
    finally:
        del ESTIMATORS[STALE_WEIGHT]


FIRST_ROWS, DRAWS = 200, 1_000
"""The paper's rows for the variance, the first training rows, and its number of gradients."""


def measure_variances(folder: RunFolder, stop: StopRequest, draws: int) -> None:
    """Measure the gradient variance at each snapshot of a finished run, except those measured before a stop.

    The figure is the paper's: the variance of one gradient of the first training rows, in the stage of the run, and
    with the states of persistent chains held fixed.
    """
    config = folder.read_config()
    every = config.checkpoints.snapshot_every
    epochs = [] if every is None else list(range(every, config.epochs + 1, every))
    known = read_variances(folder)
    if known.keys() >= set(epochs):
        return
    with machine(config):
        _measure(config, folder, [epoch for epoch in epochs if epoch not in known], known, stop, draws)


def _measure(
    config: RunConfig,
    folder: RunFolder,
    epochs: Sequence[int],
    known: dict[int, VariancePoint],
    stop: StopRequest,
    draws: int,
) -> None:
    splits = load_splits(config)
    model = configured_model(config, splits.schema)
    cache_folder = folder.chains if config.machine.chains_on_disk else None
    estimator = Method.of(config.estimator).build(config, model, splits.train, cache_folder)
    learner = Learner(model, estimator).to(config.machine.device)
    # Not spread evenly, as a number of rows is elsewhere: these are the paper's rows.
    batch = splits.train.batch(torch.arange(min(FIRST_ROWS, len(splits.train))))
    for epoch in epochs:
        load_learner(folder.snapshot(epoch), learner)
        torch.manual_seed(config.seed)
        try:
            with evaluation_progress(draws, f"gradients at epoch {epoch}") as progress:
                found = gradient_variance(model, estimator, batch, draws, progress=stop.interrupting(progress))
        except StopRequestedError:
            raise stop.interrupted(f"before the variance at epoch {epoch}", "the same command") from None
        known[epoch] = VariancePoint(epoch, _varying(found["theta"]), _varying(found["phi"]))
        write_text(folder.path / VARIANCES, json.dumps([to_record(point) for point in known.values()]) + "\n")


def _varying(found: LogVariance) -> LogVariance | None:
    return found if math.isfinite(found.log_variance) else None


PATIENCE = 60.0
"""The seconds to wait for a process of an earlier command that is still writing its last checkpoint."""

SAMPLES_SHOWN = 20


def work(job: Job, places: Places) -> None:
    """Finish a job from its current state."""
    folder = RunFolder(places.run(job))
    stop = StopRequest()
    _train(job, folder, stop)
    with folder.in_use(), stop.listening():
        measure_variances(folder, stop, job.deviations.draws or DRAWS)
    path = places.result(job)
    path.parent.mkdir(parents=True, exist_ok=True)
    _draw(folder, path.with_suffix(".png"))
    write_result(result_of(job, folder), path)


def _train(job: Job, folder: RunFolder, stop: StopRequest) -> None:
    """Train and score the run of a job, or continue it."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if not folder.config.is_file():
                remove_leftovers(folder.path)
                train(job.config, folder.path, stop)
                return
            if not job.made_with(folder.read_config()):
                raise UsageError(f"{folder.path} was made with other settings than those of this job: move it away")
            resume(folder.path, stop=stop)
            return
        except InUseError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def _draw(folder: RunFolder, path: Path) -> None:
    """Draw a few samples of the best epoch, small enough to publish with the results."""
    samples = open_run(folder.path).sample(SAMPLES_SHOWN, folder.read_config().seed)
    write_bytes(path, samples.png(scale=1))
