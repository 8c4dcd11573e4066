"""Training steps relative to their floors, the share of the data path, and scaling."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from benchmarks.floor import step_kernels
from benchmarks.report import Measurement
from benchmarks.settings import METHODS, Method, digits
from benchmarks.timing import Interleaved
from benchmarks.workload import Trained, Workload
from jsa.estimators import Estimator

STAGE_TWO = METHODS[1]


def steps(trained: Trained) -> Iterator[Measurement]:
    """Yield (a) each method's step as a multiple of its floor, and (c) the share of the data path."""
    cube = torch.randn(1024, 1024)
    out = torch.empty_like(cube)
    for method in METHODS:
        if not method.suits(trained.setting):
            continue
        workload = Workload(trained, method)
        times = Interleaved(
            {
                "step": workload.step,
                "floor": floor(workload),
                "product": lambda: torch.mm(cube, cube, out=out),
                "data": workload.data_path,
            }
        )
        work = workload.work
        notes = {
            "ms": 1e3 * times.seconds("step"),
            "floor in 1024^3 products": times.ratio("floor", "product").median,
            "evaluated a row": work.evaluated / work.rows,
            "differentiated a row": work.differentiated / work.rows,
        }
        yield Measurement("step", trained.setting.name, method.name, "x floor", times.ratio("step", "floor"), notes)
        if method.stage == 2:
            share = times.ratio("data", "step")
            yield Measurement("data path", trained.setting.name, method.name, "of the step", share)


def threads(trained: Trained) -> Iterator[Measurement]:
    """(d) Yield the time of a JSA step with two threads relative to one."""
    workload = Workload(trained, STAGE_TWO)

    def with_two() -> None:
        torch.set_num_threads(2)
        workload.step()
        torch.set_num_threads(1)

    times = Interleaved({"one": workload.step, "two": with_two})
    spread = times.ratio("two", "one")
    yield Measurement("two threads", trained.setting.name, STAGE_TWO.name, "x one thread", spread)


def scaling(trained: Trained) -> Iterator[Measurement]:
    """(f) Yield the factor for twice the data, which should be 1, and for twice the particles."""
    setting = trained.setting
    doubled = digits(setting, 2 * len(trained.data))
    more_rows = Workload(Trained(setting, doubled, trained.model, _fresh_chains(trained, len(doubled))), STAGE_TWO)
    times = Interleaved(
        {
            "as it is": Workload(Trained(setting, trained.data, trained.model, _fresh_chains(trained)), STAGE_TWO).step,
            "rows": more_rows.step,
            "particles": Workload(trained, STAGE_TWO, 2 * setting.particles).step,
            "stage II": Workload(trained, STAGE_TWO).step,
        }
    )
    yield Measurement("scaling", setting.name, "twice the rows", "x a step", times.ratio("rows", "as it is"))
    yield Measurement("scaling", setting.name, "twice the particles", "x a step", times.ratio("particles", "stage II"))


def differentiating_all(trained: Trained) -> Iterator[Measurement]:
    """Yield a stage-II step relative to one that differentiates every candidate, visited or not."""
    workload, all_of_them = Workload(trained, STAGE_TWO), Workload(trained, STAGE_TWO)
    estimator = all_of_them.learner.estimator

    def weigh_all(trajectory: object) -> torch.Tensor:
        weights = type(estimator).weigh(estimator, trajectory)  # type: ignore[attr-defined]
        return weights.clamp_min(1e-6)

    estimator.weigh = weigh_all  # type: ignore[assignment]
    times = Interleaved({"visited": workload.step, "all": all_of_them.step})
    spread = times.ratio("visited", "all")
    acceptance = float(workload.step().diagnostics["acceptance"])
    yield Measurement(
        "visited",
        trained.setting.name,
        "backward over visited only",
        "of all candidates",
        spread,
        {"acceptance": acceptance},
    )


def floor(workload: Workload) -> Callable[[], None]:
    """Build the floor of a workload's step."""
    kernels = list(step_kernels(workload.model, workload.work))

    def run() -> None:
        for kernel in kernels:
            kernel()

    return run


def _fresh_chains(trained: Trained, rows: int | None = None) -> Estimator:
    return Method("", "jsa", 2).build(trained.setting.particles, trained.model, rows or len(trained.data))
