"""What work takes, by small parts of it, against what it really takes."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import torch

from helpers.sizes import sizes
from helpers.small_runs import patterned, small_model
from jsa.errors import UsageError
from jsa.estimators import JSA, NVIL, Enumeration
from jsa.evaluation.likelihood import row_likelihoods
from jsa.latent import LatentSpace, Layer
from jsa.models.belief_network import BeliefNetwork
from jsa.runs.cost import cost, cost_at, enumeration_cost, rows_cost, step_cost

MEASURE = """
import re, sys
from dataclasses import replace
from pathlib import Path
import torch
torch.set_num_threads(1)
from jsa.data import IndexedDataset
from jsa.estimators.registry import build_estimator, option_defaults
from jsa.io.memory import taken_memory
from jsa.models.presets import preset
from jsa.runs.build import make_model
from jsa.runs.cost import step_cost
# Unlike ru_maxrss it does not begin with the memory of the process that started this one.
def most():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
name, network, rows, particles, latents = sys.argv[2], preset(sys.argv[3]), *map(int, sys.argv[4:])
if latents:
    network = replace(network, latents=(latents,))
data = IndexedDataset(torch.randint(0, 2, (rows, 784), dtype=torch.uint8))
model = make_model(network, data.schema)
def build(count):
    options = {"particles": count or particles} if "particles" in option_defaults(name) else {}
    return build_estimator(name, model.latent, inputs=784, rows=rows, options=options)
if sys.argv[1] == "said":
    print(step_cost(model, build, data, rows).bytes)
else:
    # The first step of all loads what it needs.
    build(2)(model, data.batch(torch.arange(1))).loss.backward()
    before = taken_memory()
    build(None)(model, data.batch(torch.arange(rows))).loss.backward()
    print(most() - before)
"""


@pytest.mark.parametrize(
    "cases",
    sizes(
        [("jsa", "nonlinear", 50, 500, 0), ("enumeration", "linear", 50, 0, 9), ("rebar", "two-layers", 50, 100, 0)],
        [
            *[("vimco", "linear", 5, 6000, 0), ("relax", "nonlinear", 50, 200, 0), ("arm", "linear", 50, 500, 0)],
            *[
                ("msc", "nonlinear", 200, 200, 0),
                ("rws", "two-layers", 50, 1000, 0),
                ("enumeration", "linear", 20, 0, 12),
            ],
            *[("gumbel-softmax", "categorical", 50, 500, 0), ("muprop", "linear", 100, 500, 0)],
        ],
    ),
)
def test_the_memory_of_a_step_is_estimated_within_a_factor_of_two(cases: list[tuple[object, ...]]) -> None:
    for case in cases:
        # In processes of their own: what one has freed, the other would take again without the system seeing it.
        said, taken = (
            float(subprocess.check_output([sys.executable, "-c", MEASURE, what, *map(str, case)]))
            for what in ("said", "taken")
        )
        assert 0.5 < said / taken < 2, case


def test_memory_is_that_which_is_alive_at_once() -> None:
    def one_after_the_other() -> None:
        for _ in range(10):
            torch.zeros(1000)

    def together() -> None:
        kept = [torch.zeros(1000) for _ in range(10)]
        # A view takes nothing, nor does what was there before.
        kept += [kept[0][:5], before.detach(), before.add_(1)]

    before = torch.zeros(10_000)
    assert cost(one_after_the_other).bytes == 4000
    assert cost(together).bytes == 40_000


def test_time_is_linear_in_the_size() -> None:
    assert 0.1 < cost_at(100_000, lambda size: time.sleep(size * 1e-5), small=1000).seconds / 1.0 < 10
    done: list[int] = []
    cost_at(10**12, done.append, small=10)
    # What is slow is measured once more, at a size beyond the caches of the processor.
    assert max(done) == 16 * 10


def test_a_method_that_compares_all_particles_takes_their_square() -> None:
    def line(size: int) -> None:
        torch.zeros(1000 * size, dtype=torch.uint8)

    def square(size: int) -> None:
        torch.zeros(size, size, dtype=torch.uint8)

    assert cost_at(10**6, line, small=10, bends=True).bytes == 10**9
    assert cost_at(10**6, square, small=10, bends=True).bytes == pytest.approx(10**12)


def test_a_step_is_measured_without_a_trace() -> None:
    model, rows = small_model(), patterned(100, seed=1)
    before, state = [parameter.clone() for parameter in model.parameters()], torch.get_rng_state()
    built: list[JSA] = []

    def build(particles: int | None) -> JSA:
        built.append(JSA(model.latent, rows=100, particles=particles or 100_000))
        return built[-1]

    large = step_cost(model, build, rows, 50)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(one, two) for one, two in zip(before, model.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(bool(estimator.chains.read(torch.arange(100))[1].any()) for estimator in built)
    half = step_cost(model, build, rows, 25)
    assert large.bytes / half.bytes == pytest.approx(2, rel=0.01)


def test_making_an_estimator_with_networks_leaves_no_trace() -> None:
    model, rows, state = small_model(), patterned(100, seed=1), torch.get_rng_state()
    step_cost(model, lambda particles: NVIL(model.latent, inputs=8, particles=particles or 1), rows, 50)
    assert torch.equal(state, torch.get_rng_state())


def test_a_method_refuses_more_states_than_can_be_enumerated() -> None:
    model = BeliefNetwork(Layer("bernoulli", 8), LatentSpace.of(Layer("bernoulli", 30)))
    with pytest.raises(UsageError, match="too many to enumerate"):
        step_cost(model, lambda _: Enumeration(), patterned(10, seed=0), 5)
    with pytest.raises(UsageError, match="too many to enumerate"):
        enumeration_cost(model, patterned(10, seed=0), lambda *_: None)


def test_an_evaluation_is_measured_by_some_of_its_rows_and_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine it would be slow enough to be measured once more, by more samples.
    monkeypatch.setattr("jsa.runs.cost.SLOW_SECONDS", float("inf"))
    model, rows, done = small_model(), patterned(1000, seed=0), []

    def work(some: object, samples: int) -> None:
        done.append(samples)
        row_likelihoods(model, some, samples)  # type: ignore[arg-type]

    few, many = rows_cost(rows, 50_000, work), rows_cost(rows, 50_000_000, work)
    assert max(done) < 50_000
    # What is kept of a sample does not depend on how many there are.
    assert many.bytes / few.bytes == pytest.approx(1000, rel=0.2)
