"""The NLL relative to its floor: the products of the generative model and the softplus pass."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from benchmarks.floor import Kernel, Pass, Work, evaluation_kernels, passes
from benchmarks.report import Measurement
from benchmarks.settings import Setting
from benchmarks.timing import Interleaved
from benchmarks.workload import Trained
from jsa import likelihood
from jsa.evaluation.rows import Subset
from jsa.models.belief_network import BeliefNetwork
from jsa.models.networks import gather_sum, gather_sum_wins

SAMPLES = 1000
ROWS = 5


def nll(trained: Trained) -> Iterator[Measurement]:
    """(b) Yield the time of an evaluation with 1,000 samples, as a multiple of its floor."""
    rows = Subset.spread(trained.data, ROWS)
    kernels = [kernel for part in _generative(trained) for kernel in evaluation_kernels(part, SAMPLES)]

    def floor() -> None:
        for _ in range(ROWS):
            for kernel in kernels:
                kernel()

    drawing = list(_drawing_kernels(trained))

    def floor_with_draws() -> None:
        floor()
        for _ in range(ROWS):
            for kernel in drawing:
                kernel()

    times = Interleaved(
        {
            "nll": lambda: likelihood(trained.model, rows, SAMPLES),
            "floor": floor,
            "floor with draws": floor_with_draws,
        }
    )
    notes = {
        "ms a row": 1e3 * times.seconds("nll") / ROWS,
        "x floor with draws": times.ratio("nll", "floor with draws").median,
    }
    yield Measurement("nll", trained.setting.name, f"{SAMPLES} samples", "x floor", times.ratio("nll", "floor"), notes)


@torch.no_grad()
def gathering(setting: Setting) -> Iterator[Measurement]:
    """Yield the first product of the categorical model by gathering, as in the evaluation, relative to a product."""
    variables, classes, outputs = 20, 10, 256
    h = nn.functional.one_hot(torch.randint(classes, (SAMPLES, variables)), classes).flatten(1).float()
    linear = nn.Linear(variables * classes, outputs)
    times = Interleaved(
        {
            "gather": lambda: (
                gather_sum(h, linear.weight, linear.bias, classes) if gather_sum_wins(h, classes) else None
            ),
            "product": lambda: linear(h),
        }
    )
    yield Measurement("gather-sum", setting.name, "first layer", "x product", times.ratio("gather", "product"))


def _generative(trained: Trained) -> list[Pass]:
    """Run the products of the generative model for each sample."""
    return [part for part in _passes(trained)[_conditionals_of_q(trained) :] if part.evaluated]


def _drawing_kernels(trained: Trained) -> Iterator[Kernel]:
    """Draw the samples: uniforms, and the deeper layers of q for each sample."""
    uniforms = torch.empty(SAMPLES, trained.model.latent.variables)
    yield lambda: torch.rand(uniforms.shape, out=uniforms)
    for part in _passes(trained)[: _conditionals_of_q(trained)]:
        if part.evaluated:
            yield from evaluation_kernels(part, SAMPLES)


def _passes(trained: Trained) -> list[Pass]:
    return passes(trained.model, Work(rows=0, evaluated=SAMPLES, differentiated=0, through_states=False, uniforms=0))


def _conditionals_of_q(trained: Trained) -> int:
    return len(trained.model.inference) if isinstance(trained.model, BeliefNetwork) else 1
