"""Refusals of work that does not fit into memory, and how long slow work will take, before it begins."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from jsa.data import batches_in_epoch
from jsa.data.splits import counted
from jsa.errors import UsageError, is_out_of_memory
from jsa.estimators import Estimator
from jsa.evaluation.likelihood import row_likelihoods
from jsa.evaluation.rows import Subset
from jsa.io.memory import lack_of_room
from jsa.model import LatentVariableModel
from jsa.runs.config import RunConfig
from jsa.runs.cost import SLOW_SECONDS, rows_cost, step_cost
from jsa.runs.method import Method
from jsa.runs.rows import RunRows
from jsa.training.progress import duration


def refuse_beyond_memory(needed: float, what: str, remedy: str) -> None:
    """Refuse work that does not fit into memory.

    Args:
        needed: The bytes that it takes.
        what: The work, as the subject of a sentence.
        remedy: What to do about it.

    >>> refuse_beyond_memory(1e18, "a step", "lower --particles")
    Traceback (most recent call last):
    jsa.errors.UsageError: a step takes about 1,000,000,000.0 GB of memory, and ...: lower --particles, or raise ...
    """
    if (lack := lack_of_room(needed)) is not None:
        raise UsageError(f"{what} {lack}: {remedy}, or raise --memory-limit")


def announce(seconds: float, what: str) -> None:
    """Tell about how long some work will take, if that is long."""
    if seconds > SLOW_SECONDS:
        sys.stderr.write(f"note: {what} will take about {duration(seconds)}\n")


def refuse_large_model(config: RunConfig, make: Callable[[], LatentVariableModel]) -> None:
    """Refuse a model that does not fit into memory, before it is made."""
    try:
        with torch.device("meta"):
            needed = _bytes_of_weights(config, make())
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        # More bytes than a number of 64 bits counts.
        needed = 2.0**63
    refuse_beyond_memory(needed, "a model of these sizes", "lower --latents or --hidden")


def check_run(config: RunConfig, model: LatentVariableModel, rows: RunRows, method: Method) -> None:
    """Refuse a run that does not fit into memory, and tell how long it will take if that is long.

    The small steps that are measured also bring out what the method refuses, before anything is written.
    """

    def build(particles: int | None) -> Estimator:
        chosen = config.method if particles is None else replace(config.method, particles=particles)
        return method.build(replace(config, method=chosen), model, rows.train, cache_folder=None)

    if method.is_fixed:
        # One that is made already is not to be touched before the training.
        build(None)
        return
    step = step_cost(model, build, rows.train, config.batch_size)
    if torch.device(config.machine.device).type != "cpu":
        # Another device has memory and speed of its own.
        return
    refuse_beyond_memory(
        step.bytes + _bytes_of_weights(config, model),
        f"a step of {config.estimator} with {counted(min(config.batch_size, len(rows.train)), 'row')}",
        f"lower --{'latents' if config.estimator == 'enumeration' else 'particles'} or --batch-size",
    )
    steps = config.steps or config.epochs * batches_in_epoch(len(rows.train), config.batch_size)
    seconds, chosen = steps * step.seconds, config.validation
    for name, part, samples, times in (
        ("validation", rows.valid, chosen.validation_samples, math.ceil(config.epochs / chosen.validate_every)),
        ("test", rows.test, chosen.test_samples, 1),
    ):
        if part is None:
            continue
        some = Subset.spread(part, chosen.validation_rows if name == "validation" else None)
        found = rows_cost(some, samples, partial(row_likelihoods, model))
        refuse_beyond_memory(
            found.bytes, f"a {name} with {counted(samples, 'sample')} per row", f"lower --{name}-samples"
        )
        seconds += times * found.seconds
    announce(seconds, "this run")


def _bytes_of_weights(config: RunConfig, model: LatentVariableModel) -> float:
    """Return the bytes of the weights, their gradients, what the optimizer keeps for each, and the average."""
    each = 2 + 2 * (config.optimization.optimizer == "adam") + (config.optimization.average_decay is not None)
    return each * sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
