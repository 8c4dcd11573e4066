"""The cost of denormal numbers: steps with tiny importance weights, with and without the countermeasures."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from benchmarks.report import Measurement
from benchmarks.settings import Method
from benchmarks.timing import Interleaved
from benchmarks.workload import Trained, Workload
from jsa.batch import Batch
from jsa.estimators import weighted

METHODS = (Method("RWS", "rws"), Method("hybrid", "hybrid", 2))

SPREAD = 6.0
"""A factor of log p(x, h), as if there were six times as many pixels. Weights of a row then differ by a hundred nats,
and the smaller ones and their products are denormal in single precision."""


def denormals(trained: Trained) -> Iterator[Measurement]:
    """Yield steps that differentiate all positive weights, with and without flushing, relative to the actual step."""
    for method in METHODS:
        as_it_is, with_all = _spread_out(trained, method), _spread_out(trained, method)
        times = Interleaved(
            {
                "as it is": as_it_is.step,
                "flushed": _keeping_all(with_all.step, flush=True),
                "not flushed": _keeping_all(with_all.step, flush=False),
            }
        )
        for contender in ("flushed", "not flushed"):
            name = f"{method.name}, all kept, {contender}"
            yield Measurement("denormals", trained.setting.name, name, "x as it is", times.ratio(contender, "as it is"))


def _spread_out(trained: Trained, method: Method) -> Workload:
    workload = Workload(trained, method)
    log_joint = workload.model.log_joint

    def spread_out(batch: Batch, h: Tensor) -> Tensor:
        return SPREAD * log_joint(batch, h)

    workload.model.log_joint = spread_out  # type: ignore[method-assign]
    return workload


def _keeping_all(step: Callable[[], object], *, flush: bool) -> Callable[[], None]:
    """Differentiate every candidate with positive weight."""

    def run() -> None:
        non_negligible = weighted.non_negligible
        weighted.non_negligible = lambda weights: weights > 0
        torch.set_flush_denormal(flush)
        step()
        torch.set_flush_denormal(True)
        weighted.non_negligible = non_negligible

    return run
