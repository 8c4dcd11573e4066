"""Whether torch.compile pays: a step with a compiled joint density relative to the plain one."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from benchmarks.report import Measurement
from benchmarks.steps import STAGE_TWO
from benchmarks.timing import Interleaved
from benchmarks.workload import Trained, Workload


def compiled(trained: Trained) -> Iterator[Measurement]:
    """Yield the ratio, and the seconds of compilation."""
    plain, fused = Workload(trained, STAGE_TWO), Workload(trained, STAGE_TWO)
    fused.model.log_joint = torch.compile(fused.model.log_joint, dynamic=True)  # type: ignore[method-assign]
    started = time.perf_counter()
    for _ in range(30):
        fused.step()
    notes = {"seconds of compilation": time.perf_counter() - started}
    times = Interleaved({"plain": plain.step, "compiled": fused.step})
    ratio = times.ratio("compiled", "plain")
    yield Measurement("compiled", trained.setting.name, STAGE_TWO.name, "x plain", ratio, notes)
