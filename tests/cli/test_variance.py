"""``jsa variance`` on a small table of the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.block_tables import SIZES, strictly
from helpers.terminal import Terminal, run_jsa
from jsa import Batch, BeliefNetwork, ChainCache
from jsa.errors import UsageError
from jsa.estimators import NVIL, VIMCO, Estimator, Rebar
from jsa.evaluation.gradient_variance import GradientReport
from jsa.evaluation.results import LogVariance
from jsa.front.run import open_run
from jsa.io.tensor_files import load_tensors
from jsa.training.state import read_chains
from jsa.training.weights import save_weights

pytestmark = pytest.mark.usefixtures("here")
REPORT = "jsa.evaluation.gradient_variance.gradient_report"
FEW = "--draws 20 --rows 20 --reference-moves 100"
ONE = {"theta": LogVariance(1.0, 0.5, 1.5), "phi": LogVariance(2.0, 1.5, 2.5)}


@dataclass(frozen=True)
class Measured:
    """What was to be measured."""

    estimator: Estimator
    weights: dict[str, Tensor]
    chains: tuple[Tensor, Tensor] | None


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Measured]:
    """What is to be measured, and is not: every figure is the same."""
    found: list[Measured] = []

    def kept(model: BeliefNetwork, estimator: Estimator, batch: Batch, *_: object, **__: object) -> GradientReport:
        weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        chains = None if estimator.chains is None else estimator.chains.read(batch.row_numbers)
        found.append(Measured(estimator, weights, chains))
        return GradientReport(ONE, ONE, {}, 3.0)

    monkeypatch.setattr(REPORT, kept)
    return found


def train(table: Path, *flags: str) -> Path:
    """A run, for ``jsa variance run``."""
    run_jsa("train --data", table, *SIZES, "--epochs 2 --out run", *flags)
    return Path("run")


def figures(jsa: Terminal, *command: str | Path) -> dict[str, Any]:
    jsa("variance", *command, "--json figures.json")
    return strictly(Path("figures.json"))


def test_variance_compares_methods(run_folder: Path, jsa: Terminal) -> None:
    sizes = "--draws 20 --rows 10 --moves 20 --threads 1"
    record = figures(jsa, run_folder, "--estimators jsa msc vimco", sizes)["estimators"]
    assert set(record) == {"jsa", "msc", "vimco"}
    assert set(record["jsa"]["squared_bias"]) == {"theta", "phi"}
    assert record["vimco"]["squared_bias"] == {}
    assert record["vimco"]["decoder_evaluations"] == 2
    assert "did you mean 'vimco'?" in jsa.refuses("variance", run_folder, "--estimators vimko")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("jsa vimco arsm", "ARSM is for categorical latents"),
        ("jsa vimco --particles 1", "VIMCO needs at least 2 particles"),
        ("rloo vimco --temperature 0.25", "none of rloo, vimco takes --temperature: leave it out"),
    ],
)
def test_variance_refuses_before_it_measures(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, jsa: Terminal, flags: str, sentence: str
) -> None:
    for name in (REPORT, "jsa.evaluation.posterior_gradient.posterior_gradient"):
        monkeypatch.setattr(name, None)
    assert sentence in jsa.refuses("variance", run_folder, "--estimators", flags)


def test_variance_prints_each_method_when_it_is_measured(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, jsa: Terminal
) -> None:
    def failing_at_vimco(model: object, estimator: Estimator, *_: object, **__: object) -> GradientReport:
        if isinstance(estimator, VIMCO):
            raise UsageError("enough")
        return GradientReport(ONE, ONE, {}, 3.0)

    monkeypatch.setattr(REPORT, failing_at_vimco)
    _, head, theta, phi = jsa("variance", run_folder, "--estimators nvil vimco", code=2).out.splitlines()
    assert head.split()[:3] == ["method", "particles", "given"]
    assert theta.split() == ["nvil", "1", "theta", "1.00", "[0.50,", "1.50]", "1.00", "[0.50,", "1.50]", "3.00"]
    assert phi.split() == ["phi", "2.00", "[1.50,", "2.50]", "2.00", "[1.50,", "2.50]"]


@pytest.mark.parametrize(("given", "expected"), [("", [2, 1, None]), ("--particles 4", [4, 4, None])])
def test_variance_tells_the_particles(
    run_folder: Path, jsa: Terminal, measured: list[Measured], given: str, expected: list[int | None]
) -> None:
    record = figures(jsa, run_folder, "--estimators rloo nvil enumeration", given)["estimators"]
    assert [record[name]["particles"] for name in ("rloo", "nvil", "enumeration")] == expected


def test_variance_gives_an_option_to_the_methods_that_take_it(
    run_folder: Path, jsa: Terminal, measured: list[Measured]
) -> None:
    record = figures(jsa, run_folder, "--temperature 0.25 --estimators concrete vimco")
    assert [getattr(each.estimator, "temperature", None) for each in measured] == [0.25, None]
    assert record["options"] == {"temperature": 0.25}


def test_variance_has_weights_and_chains_of_one_moment(table: Path, jsa: Terminal, measured: list[Measured]) -> None:
    out = train(table, "--average-decay 0.9")
    best = open_run(out)
    with torch.no_grad():
        for parameter in best.model.parameters():
            parameter.zero_()
    save_weights(best.model, out / "best.safetensors", {"epoch": 1})
    assert "note" not in jsa("variance run --estimators jsa --rows 20").out
    note = "note: the weights are those of epoch 1, chains and baselines those of epoch 2: use --checkpoint last to"
    assert note in jsa("variance run --estimators jsa --rows 20 --checkpoint best").out
    # Not the average, of which the chains know nothing.
    tensors, _ = load_tensors(out / "state.safetensors")
    last, zeros = (each.weights for each in measured)
    assert all(torch.equal(tensor, tensors[f"learner:model.{name}"]) for name, tensor in last.items())
    assert all(not tensor.any() for tensor in zeros.values())


def test_variance_at_a_snapshot(table: Path, jsa: Terminal) -> None:
    train(table, "--snapshot-every 1")
    command = f"run {FEW} --estimators rloo jsa --snapshot"
    first, second = (figures(jsa, command, epoch)["estimators"]["rloo"] for epoch in "12")
    assert first != second
    assert "has no snapshot of epoch 7: it has 1, 2" in jsa.refuses("variance run --snapshot 7")


@pytest.mark.parametrize("on_disk", [True, False])
def test_variance_begins_where_the_chains_stand(table: Path, on_disk: bool, measured: list[Measured]) -> None:
    out = train(table, "--chains-on-disk" if on_disk else "")
    run_jsa("variance run --estimators jsa", FEW)
    cache = ChainCache(open_run(out).model.latent, 240, out / "chains" if on_disk else None)
    cache.load_state_dict(read_chains(out / "state.safetensors"))
    assert measured[0].chains is not None
    states, visited = measured[0].chains
    assert visited.all()
    assert torch.equal(states, cache.read(torch.arange(6, 240, 12))[0])


def test_variance_has_the_baselines_of_the_run(table: Path, measured: list[Measured], jsa: Terminal) -> None:
    out = train(table, "--estimator nvil")
    shown = jsa("variance run --estimators nvil rebar rloo --rows 20").out
    tensors, _ = load_tensors(out / "state.safetensors")
    nvil = measured[0].estimator
    assert isinstance(nvil, NVIL)
    assert nvil.centers != 0
    for name, tensor in nvil.state_dict().items():
        assert torch.equal(tensor, tensors[f"learner:estimator.{name}"])
    assert "\nrebar: learned parts other than the model, such as baselines, are untrained here" in shown


def test_variance_with_another_option_than_in_the_run_is_of_what_was_not_learned(
    table: Path, measured: list[Measured], jsa: Terminal
) -> None:
    train(table, "--estimator rebar --learning-rate 0.01")
    for given, untrained in (("", False), ("--temperature 0.5", False), ("--temperature 0.25", True)):
        assert ("untrained" in jsa("variance run --estimators rebar --rows 20", given).out) == untrained
    rebars = [each.estimator for each in measured if isinstance(each.estimator, Rebar)]
    learned, same, other = (float(rebar.log_temperature.detach().exp()) for rebar in rebars)
    assert learned == same != 0.5
    assert other == pytest.approx(0.25)


def test_variance_of_chains_on_a_run_that_has_none(table: Path) -> None:
    train(table, "--estimator rloo --particles 2")
    run_jsa("variance run --estimators jsa", FEW)


def test_objectives_that_differ_are_told(run_folder: Path, jsa: Terminal, measured: list[Measured]) -> None:
    assert "different objectives" not in jsa("variance", run_folder, "--estimators rloo reinforce").out
    shown = jsa("variance", run_folder, "--estimators rloo vimco reinforce").out
    assert "these are gradients of different objectives: ELBO: rloo, reinforce; multi-sample bound: vimco" in shown


@pytest.mark.parametrize(("name", "learns"), [("nvil", True), ("rebar", True), ("vimco", False), ("hybrid", False)])
def test_what_a_method_learns_beside_the_model_is_untrained_at_the_run_of_another(
    run_folder: Path, jsa: Terminal, measured: list[Measured], name: str, learns: bool
) -> None:
    assert ("are untrained here" in jsa("variance", run_folder, "--estimators", name).out) is learns


def test_a_buffer_is_learned_too() -> None:
    class Remembering(VIMCO):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))

    assert Remembering().learns
    assert not VIMCO().learns
