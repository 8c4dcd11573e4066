"""A step waits for its device twice at most, whatever the method; where it waits is counted on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.synchronizations import Synchronizations, synchronizations
from jsa import JSA, Batch, BeliefNetwork, LatentSpace, Layer, Learner, Stage
from jsa.cli import main
from jsa.data import epoch_order
from jsa.estimators.registry import ESTIMATORS, build_estimator
from jsa.kernels import Block, Cycle, Independence, Kernel, MetropolisHastings, Repeat
from jsa.model_calls import Counter
from jsa.training.loop import Training

ROWS = 40
BITS = LatentSpace.of(Layer("bernoulli", 6))
CLASSES = LatentSpace.of(Layer("categorical", 3, classes=4))
PAIRS = [
    (name, stage)
    for name, kind in ESTIMATORS.items()
    for stage in ((Stage.FRESH, Stage.PERSISTENT) if kind.keeps_chains else (None,))
]


def on_the_host(learner: Learner) -> list[Tensor]:
    """What the cache keeps on the CPU wherever the chains are."""
    chains = learner.estimator.chains
    return [] if chains is None else [vars(vars(chains)["_storage"])["_visited"]]


@pytest.mark.parametrize(("name", "stage"), PAIRS)
def test_a_step_of_an_own_loop(name: str, stage: Stage | None) -> None:
    latent = CLASSES if name == "arsm" else BITS
    model = BeliefNetwork(Layer("bernoulli", 12), latent)
    learner = Learner(model, build_estimator(name, latent, inputs=12, rows=ROWS, options={}))
    x = torch.bernoulli(torch.full((ROWS, 12), 0.4))
    learner(Batch(x, torch.arange(ROWS))).loss.backward()
    if stage is not None:
        learner.stage = stage
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.01)
    rows = torch.arange(0, ROWS, 2)
    with synchronizations(rows, *on_the_host(learner)) as places:
        learner(Batch(x.index_select(0, rows), rows)).loss.backward()
        optimizer.step()
    assert len(places) <= 2, places


MIXED = LatentSpace.of(Layer("bernoulli", 6), Layer("categorical", 3, classes=2), Layer("gaussian", 2))
KERNELS = [
    Repeat(MetropolisHastings(Block(acceptance=0.25)), 4),
    Cycle(MetropolisHastings(Independence()), Repeat(MetropolisHastings(Block()), 4)),
]


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("latent", [BITS, MIXED], ids=["bits", "mixed"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_a_step_of_blocks(kernel: Kernel, latent: LatentSpace, stage: Stage) -> None:
    model = BeliefNetwork(Layer("bernoulli", 12), latent)
    learner = Learner(model, JSA(latent, ROWS, kernel=kernel, gradient="last"))
    x = torch.bernoulli(torch.full((ROWS, 12), 0.4))
    learner(Batch(x, torch.arange(ROWS))).loss.backward()
    learner.stage = stage
    rows = torch.arange(0, ROWS, 2)
    with synchronizations(rows, *on_the_host(learner)) as places:
        learner(Batch(x.index_select(0, rows), rows)).loss.backward()
    assert len(places) <= 2, places


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", ["jsa", "hybrid", "rws", "vimco", "nvil", "rebar"])
def test_a_step_of_the_trainer(name: str, missing: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    step, counted = Training.step, []
    order: list[Tensor] = []

    def kept(*arguments: Any) -> Iterator[Tensor]:
        order[:] = epoch_order(*arguments)
        return iter(order)

    def counting(self: Training, read: Iterator[Batch], counter: Counter) -> None:
        mode = Synchronizations()
        held = [part for part in vars(self.rows.train).values() if isinstance(part, Tensor)]
        for tensor in (*order, *held, *on_the_host(self.learner)):
            mode.on_host(tensor)
        with mode:
            step(self, read, counter)
        counted.append(mode.places)

    monkeypatch.setattr(Training, "step", counting)
    monkeypatch.setattr("jsa.training.loop.epoch_order", kept)
    table = torch.bernoulli(torch.full((60, 5), 0.5)).numpy()
    if missing:
        table[::7, 2] = np.nan
    np.save(tmp_path / "rows.npy", table)
    flags = "--model linear --latents 3 --epochs 2 --switch-epoch 1 --batch-size 20 --validation-samples 2 --threads 1"
    paths = ["--data", str(tmp_path / "rows.npy"), "--out", str(tmp_path / "run")]
    assert main(["train", *paths, "--estimator", name, *flags.split()]) == 0
    assert len(counted) == 6
    # The first states of all are looked at.
    assert max(map(len, counted[1:])) <= 2, max(counted[1:], key=len)


def test_what_waits_is_counted() -> None:
    values, host = torch.rand(5), torch.arange(5)
    with synchronizations(host) as places:
        values[values > 2]
        values.sum().item()
        float(values.sum())
        bool(values.any())
        values.tolist()
        values.nonzero()
        values.clone().cpu()
        values.clone().to("cpu")
        assert len(places) == 8
        # Numbers of the host, and what is computed from them, wait for nobody.
        assert host.tolist()
        assert bool((host + 1 > 0).all())
        values.index_select(0, host)
        assert len(places) == 8
