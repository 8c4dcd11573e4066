"""A method at work on a partly trained model, and the number of states in its steps."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from benchmarks.floor import Work, flops, passes
from benchmarks.settings import Method, Model, Setting, make_model
from jsa.batch import Batch, Estimate
from jsa.data import Dataset, epoch_order
from jsa.estimators import Estimator, PersistentEstimator, Stage
from jsa.kernels import Trajectory
from jsa.learner import Learner
from jsa.training.finite_checks import refuse_non_finite_step
from jsa.training.optimization import forget_gradients, learned

WARM_UP_RATE = 1e-3
WARM_UP_PARTICLES = 4
"""Few particles train a model as well as many, in a fraction of the time."""
STEPS_COUNTED = 20


@dataclass(frozen=True)
class Trained:
    """A model after some training with JSA, and the states of its chains."""

    setting: Setting
    data: Dataset
    model: Model
    estimator: Estimator


def train_for_a_while(setting: Setting, data: Dataset) -> Trained:
    """Warm up, half in stage I and half in stage II, so that the chains are as old as in training."""
    model = make_model(setting, data)
    estimator = Method("", "jsa", 1).build(min(setting.particles, WARM_UP_PARTICLES), model, len(data))
    training = Training(setting, data, model, estimator, WARM_UP_RATE)
    for step in range(setting.warm_up_steps):
        if step == setting.warm_up_steps // 2:
            estimator.stage = Stage.PERSISTENT
        training.step()
    return Trained(setting, data, model, estimator)


class Training:
    """The steps of a training, as in the training loop."""

    def __init__(self, setting: Setting, data: Dataset, model: Model, estimator: Estimator, rate: float = 1e-5) -> None:
        self.data = data
        self.learner = Learner(model, estimator).train()
        self.parameters = learned(self.learner)
        self.optimizer = torch.optim.Adam(self.parameters.values(), lr=rate, fused=True)
        self._visits = _endless_visits(len(data), setting.batch_size)

    def step(self) -> Estimate:
        """Make one step."""
        batch = self.batch()
        forget_gradients(self.parameters.values())
        estimate: Estimate = self.learner(batch)
        estimate.loss.backward()
        refuse_non_finite_step(estimate, batch, self.parameters)
        self.optimizer.step()
        return estimate

    def batch(self) -> Batch:
        """Return the next batch."""
        return self.data.batch(next(self._visits))


class Workload(Training):
    """The steps of a method on a trained model, which they hardly move."""

    def __init__(self, trained: Trained, method: Method, particles: int | None = None) -> None:
        model = copy.deepcopy(trained.model)
        self.particles = particles or trained.setting.particles
        self.method = method
        self.model = model
        estimator = method.build(self.particles, model, len(trained.data))
        if estimator.chains is not None:
            estimator.chains = copy.deepcopy(trained.estimator.chains)
        super().__init__(trained.setting, trained.data, model, estimator)
        self.rows = trained.setting.batch_size

    @cached_property
    def work(self) -> Work:
        """Return the minimal work of a step, which differentiates as many states as these steps visit on average."""
        with _recorded_visits(self.learner.estimator) as visited:
            estimates = [self.step() for _ in range(STEPS_COUNTED)]
        particles, rows, latent = self.particles, self.rows, self.model.latent
        match self.method.estimator:
            case "jsa":
                candidates = (particles + 1) * rows
                counting = sum(visited) / STEPS_COUNTED
                return self._cheapest(candidates, round(counting), particles * rows * (latent.variables + 1))
            case "rws":
                weights = [estimate.log_weights.softmax(0) for estimate in estimates]
                counting = sum(int((weight > torch.finfo().eps ** 2).sum()) for weight in weights) / STEPS_COUNTED
                return self._cheapest(particles * rows, round(counting), particles * rows * latent.variables)
            case _:
                states = estimates[-1].log_weights.numel()
                relaxed = self.method.estimator == "st-gumbel-softmax"
                return Work(
                    rows, 0, states, relaxed, particles * rows * (latent.width if relaxed else latent.variables)
                )

    def _cheapest(self, candidates: int, counting: int, uniforms: int) -> Work:
        """Return the cheaper work: evaluate all candidates and differentiate those that count, or differentiate all."""
        two_passes = Work(self.rows, candidates, counting, False, uniforms)
        one_pass = Work(self.rows, 0, candidates, False, uniforms)
        return min(two_passes, one_pass, key=lambda work: flops(passes(self.model, work)))

    def data_path(self) -> float:
        """Return the seconds of a step's data path: batching, and reading and writing the chains."""
        estimator = self.learner.estimator
        started = time.perf_counter()
        batch = self.batch()
        if estimator.chains is not None:
            states, visited = estimator.chains.read(batch.row_numbers)
            estimator.chains.write(batch.row_numbers, states, visited)
        return time.perf_counter() - started


def _endless_visits(rows: int, batch_size: int) -> Iterator[Tensor]:
    epoch = 0
    while True:
        yield from epoch_order(rows, batch_size, seed=0, epoch=epoch)
        epoch += 1


@contextmanager
def _recorded_visits(estimator: Estimator) -> Iterator[list[int]]:
    """Yield a list to which every step adds the number of states that its chains visit."""
    visited: list[int] = []
    if not isinstance(estimator, PersistentEstimator):
        yield visited
        return
    move: Callable[..., Trajectory] = estimator.kernel.move

    def recorded(*arguments: object, **named: object) -> Trajectory:
        trajectory = move(*arguments, **named)
        visited.append(int((trajectory.multiplicities > 0).sum()))
        return trajectory

    vars(estimator.kernel)["move"] = recorded
    yield visited
    del vars(estimator.kernel)["move"]
