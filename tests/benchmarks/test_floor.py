"""The floor counts what the paper's arithmetic counts, and its kernels run."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.floor import Work, flops, passes, step_kernels
from benchmarks.report import Measurement, comparison, load, pooled, save
from benchmarks.timing import Interleaved, Spread
from jsa import BeliefNetwork, LatentSpace, Layer, StructuredPrediction

LATENT = LatentSpace.of(Layer("bernoulli", 3))


def test_products_of_a_linear_model() -> None:
    model = BeliefNetwork(Layer("bernoulli", 5), LATENT)
    work = Work(rows=7, evaluated=11, differentiated=2, through_states=False, uniforms=1)
    product = 2 * 5 * 3
    # The encoder's rows: forward and the weights' gradient, none for the data; likewise for the states.
    assert flops(passes(model, work)) == product * (7 * 2 + 11 + 2 * 2)


def test_a_gradient_through_the_states_is_one_product_more() -> None:
    model = BeliefNetwork(Layer("bernoulli", 5), LATENT)
    plain, through = (Work(7, 0, 2, flag, 1) for flag in (False, True))
    assert flops(passes(model, through)) - flops(passes(model, plain)) == 2 * 5 * 3 * 2


@pytest.mark.parametrize("hidden", [(), (4,), (4, 6)])
def test_kernels_do_as_many_products_as_are_counted(hidden: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    models = (
        BeliefNetwork(Layer("bernoulli", 5), LatentSpace.of(Layer("bernoulli", 3), Layer("bernoulli", 2)), hidden),
        StructuredPrediction(Layer("bernoulli", 5), 4, LATENT, hidden or (6,)),
    )
    for model in models:
        work = Work(rows=7, evaluated=11, differentiated=2, through_states=False, uniforms=13)
        kernels = list(step_kernels(model, work))
        with FlopCounterMode(display=False) as counter:
            for kernel in kernels:
                kernel()
        assert counter.get_total_flops() == flops(passes(model, work))


def measured(*values: float) -> Measurement:
    return Measurement("step", "linear", "JSA", "x floor", Spread.of(values), {"ms": values[0]})


@pytest.mark.parametrize(
    ("before", "after", "told"), [(1.5, 2.0, "WORSE"), (2.0, 1.5, "better"), (1.5, 1.52, "x 1.01 ")]
)
def test_a_ratio_that_grew_beyond_its_spread_is_worse(before: float, after: float, told: str) -> None:
    earlier, later = ([measured(median - 0.05, median, median + 0.05)] for median in (before, after))
    assert comparison(earlier, later)[0].endswith(told)


def test_passes_are_pooled() -> None:
    (pool,) = pooled([measured(1.0, 2.0), measured(3.0, 4.0), measured(5.0, 9.0)])
    assert pool.spread.median == 3.5
    assert pool.notes == {"ms": 3.0}


def test_measurements_come_back_from_their_file(tmp_path: Path) -> None:
    save([measured(1.0, 2.0, 3.0)], tmp_path / "bench.json", "command", "commit")
    assert load(tmp_path / "bench.json") == [measured(1.0, 2.0, 3.0)]


def test_contenders_take_turns() -> None:
    turns: list[str] = []
    times = Interleaved({name: lambda name=name: turns.append(name) for name in "ab"}, rounds=3)  # type: ignore[misc]
    assert times.seconds("a") > 0
    changes = sum(first != second for first, second in pairwise(turns))
    assert changes >= 5
