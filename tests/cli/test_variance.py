"""``jsa variance`` on a small table of the user's own."""

import json
from pathlib import Path

import pytest
import torch

from helpers.block_tables import SIZES, strictly
from jsa import JSA, Batch, ChainCache
from jsa.cli import main
from jsa.errors import UsageError
from jsa.estimators import NVIL, VIMCO, Estimator, Rebar
from jsa.evaluation.gradient_variance import GradientReport
from jsa.evaluation.results import LogVariance
from jsa.io.tensor_files import load_tensors
from jsa.runs.build import open_run
from jsa.training.state import read_chains
from jsa.training.weights import save_weights


def test_variance_compares_methods(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "variance.json"
    sizes = ["--draws", "20", "--rows", "10", "--moves", "20", "--threads", "1", "--json", str(figures)]
    assert main(["variance", str(run_folder), "--estimators", "jsa", "msc", "vimco", *sizes]) == 0
    record = json.loads(figures.read_text())["estimators"]
    assert set(record) == {"jsa", "msc", "vimco"}
    assert set(record["jsa"]["squared_bias"]) == {"theta", "phi"}
    assert record["vimco"]["squared_bias"] == {}
    assert record["vimco"]["decoder_evaluations"] == 2
    shown = capsys.readouterr().out
    assert "vimco" in shown
    assert main(["variance", str(run_folder), "--estimators", "vimko"]) == 2
    assert "did you mean 'vimco'?" in capsys.readouterr().err


def test_variance_refuses_before_it_measures(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(*_: object, **__: object) -> None:
        raise AssertionError("nothing is to be measured")

    monkeypatch.setattr("jsa.evaluation.gradient_variance.gradient_report", measured)
    monkeypatch.setattr("jsa.evaluation.posterior_gradient.posterior_gradient", measured)
    assert main(["variance", str(run_folder), "--estimators", "jsa", "vimco", "arsm"]) == 2
    captured = capsys.readouterr()
    assert "ARSM is for categorical latents" in captured.err
    assert captured.out == ""
    assert main(["variance", str(run_folder), "--estimators", "jsa", "vimco", "--particles", "1"]) == 2
    assert "VIMCO needs at least 2 particles" in capsys.readouterr().err


def test_variance_prints_each_method_when_it_is_measured(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(model: object, estimator: Estimator, *_: object, **__: object) -> GradientReport:
        if isinstance(estimator, VIMCO):
            raise UsageError("enough")
        one = {"theta": LogVariance(1.0, 0.5, 1.5), "phi": LogVariance(2.0, 1.5, 2.5)}
        return GradientReport(one, one, {}, 3.0)

    monkeypatch.setattr("jsa.evaluation.gradient_variance.gradient_report", measured)
    assert main(["variance", str(run_folder), "--estimators", "nvil", "vimco"]) == 2
    _, head, theta, phi = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["method", "particles", "given"]
    assert theta.split() == ["nvil", "1", "theta", "1.00", "[0.50,", "1.50]", "1.00", "[0.50,", "1.50]", "3.00"]
    assert phi.split() == ["phi", "2.00", "[1.50,", "2.50]", "2.00", "[1.50,", "2.50]"]


@pytest.mark.parametrize(("given", "expected"), [([], [2, 1, None]), (["--particles", "4"], [4, 4, None])])
def test_variance_tells_the_particles(
    run_folder: Path, tmp_path: Path, given: list[str], expected: list[int | None]
) -> None:
    figures = tmp_path / "figures.json"
    sizes = ["--draws", "20", "--rows", "5", "--json", str(figures)]
    names = ["rloo", "nvil", "enumeration"]
    assert main(["variance", str(run_folder), "--estimators", *names, *sizes, *given]) == 0
    record = strictly(figures)["estimators"]
    assert [record[name]["particles"] for name in names] == expected


def test_variance_gives_an_option_to_the_methods_that_take_it(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    temperatures = {}

    def measured(model: object, estimator: Estimator, *_: object, **__: object) -> GradientReport:
        temperatures[type(estimator).__name__] = getattr(estimator, "temperature", None)
        one = {"theta": LogVariance(1.0, 0.5, 1.5), "phi": LogVariance(2.0, 1.5, 2.5)}
        return GradientReport(one, one, {}, 3.0)

    monkeypatch.setattr("jsa.evaluation.gradient_variance.gradient_report", measured)
    figures = tmp_path / "figures.json"
    command = ["variance", str(run_folder), "--temperature", "0.25", "--json", str(figures), "--estimators"]
    assert main([*command, "concrete", "vimco"]) == 0
    assert temperatures == {"Concrete": 0.25, "VIMCO": None}
    assert strictly(figures)["options"] == {"temperature": 0.25}
    capsys.readouterr()
    assert main([*command, "rloo", "vimco"]) == 2
    assert capsys.readouterr().err.strip().endswith("none of rloo, vimco takes --temperature: leave it out")


def test_variance_has_weights_and_chains_of_one_moment(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, weights = tmp_path / "run", []
    train = ["train", "--data", str(table), *SIZES, "--epochs", "2", "--average-decay", "0.9", "--out", str(out)]
    assert main(train) == 0
    best = open_run(out)
    with torch.no_grad():
        for parameter in best.model.parameters():
            parameter.zero_()
    save_weights(best.model, out / "best.safetensors", {"epoch": 1})

    def recorded(model: torch.nn.Module, *_: object, **__: object) -> None:
        weights.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        raise UsageError("enough")

    monkeypatch.setattr("jsa.evaluation.gradient_variance.gradient_report", recorded)
    command = ["variance", str(out), "--estimators", "jsa", "--rows", "20"]
    capsys.readouterr()
    assert main(command) == 2
    assert "note" not in capsys.readouterr().out
    # Not the average, of which the chains know nothing.
    tensors, _ = load_tensors(out / "state.safetensors")
    assert all(torch.equal(tensor, tensors[f"learner:model.{name}"]) for name, tensor in weights[0].items())
    assert main([*command, "--checkpoint", "best"]) == 2
    assert (
        "note: the weights are those of epoch 1, chains and baselines those of epoch 2: with --checkpoint last all "
        "are of one moment"
    ) in capsys.readouterr().out
    assert all(not tensor.any() for tensor in weights[1].values())


def test_variance_at_a_snapshot(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, figures = tmp_path / "run", [tmp_path / f"{epoch}.json" for epoch in (1, 2)]
    assert (
        main(["train", "--data", str(table), *SIZES, "--epochs", "2", "--snapshot-every", "1", "--out", str(out)]) == 0
    )
    sizes = ["--estimators", "rloo", "jsa", "--draws", "20", "--rows", "20", "--reference-moves", "100"]
    for epoch, path in enumerate(figures, 1):
        assert main(["variance", str(out), *sizes, "--snapshot", str(epoch), "--json", str(path)]) == 0
    first, second = (json.loads(path.read_text())["estimators"]["rloo"] for path in figures)
    assert first != second
    assert main(["variance", str(out), "--snapshot", "7"]) == 2
    assert "has no snapshot of epoch 7: it has 1, 2" in capsys.readouterr().err


@pytest.mark.parametrize("chains", [["--mapped-chains"], []])
def test_variance_begins_where_the_chains_stand(
    table: Path, tmp_path: Path, chains: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    assert main(["train", "--data", str(table), *SIZES, "--epochs", "2", *chains, "--out", str(out)]) == 0
    begun = []

    def recorded(model: object, estimator: JSA, batch: Batch, *_: object, **__: object) -> None:
        begun.append(estimator.chains.read(batch.index))
        raise UsageError("enough")

    monkeypatch.setattr("jsa.evaluation.gradient_variance.gradient_report", recorded)
    assert main(["variance", str(out), "--estimators", "jsa", "--rows", "20", "--reference-moves", "100"]) == 2
    folder = out / "chains" if chains else None
    cache = ChainCache(open_run(out).model.latent, 240, folder)
    cache.load_state_dict(read_chains(out / "state.safetensors"))
    states, visited = begun[0]
    assert visited.all()
    assert torch.equal(states, cache.read(torch.arange(20))[0])


def test_variance_has_the_baselines_of_the_run(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, measured = tmp_path / "run", {}
    assert main(["train", "--data", str(table), "--estimator", "nvil", *SIZES, "--epochs", "2", "--out", str(out)]) == 0

    def recorded(model: object, estimator: Estimator, *_: object, **__: object) -> GradientReport:
        measured[type(estimator)] = estimator
        nothing = {"theta": LogVariance(0.0, 0.0, 0.0), "phi": LogVariance(0.0, 0.0, 0.0)}
        return GradientReport(nothing, nothing, {}, 1.0)

    monkeypatch.setattr("jsa.evaluation.gradient_variance.gradient_report", recorded)
    assert main(["variance", str(out), "--estimators", "nvil", "rebar", "rloo", "--rows", "20"]) == 0
    tensors, _ = load_tensors(out / "state.safetensors")
    assert measured[NVIL].centers != 0
    for name, tensor in measured[NVIL].state_dict().items():
        assert torch.equal(tensor, tensors[f"learner:estimator.{name}"])
    assert (
        "\nrebar: what this method learns beside the model, such as baselines, is untrained" in capsys.readouterr().out
    )


def test_variance_with_another_option_than_in_the_run_is_of_what_was_not_learned(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, temperatures = tmp_path / "run", []
    train = ["train", "--data", str(table), "--estimator", "rebar", *SIZES, "--epochs", "1", "--learning-rate", "0.01"]
    assert main([*train, "--out", str(out)]) == 0

    def recorded(model: object, estimator: Rebar, *_: object, **__: object) -> GradientReport:
        temperatures.append(float(estimator.log_temperature.detach().exp()))
        nothing = {"theta": LogVariance(0.0, 0.0, 0.0), "phi": LogVariance(0.0, 0.0, 0.0)}
        return GradientReport(nothing, nothing, {}, 1.0)

    monkeypatch.setattr("jsa.evaluation.gradient_variance.gradient_report", recorded)
    capsys.readouterr()
    for given, untrained in (([], False), (["--temperature", "0.5"], False), (["--temperature", "0.25"], True)):
        assert main(["variance", str(out), "--estimators", "rebar", "--rows", "20", *given]) == 0
        assert ("untrained" in capsys.readouterr().out) == untrained
    assert temperatures[0] == temperatures[1] != 0.5
    assert temperatures[2] == pytest.approx(0.25)


def test_variance_of_chains_on_a_run_that_has_none(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    sizes = ["--epochs", "1", "--particles", "2", "--model", "linear", "--latents", "3", "--test-samples", "5"]
    assert main(["train", "--data", str(table), "--estimator", "rloo", *sizes, "--out", str(out)]) == 0
    few = ["--draws", "20", "--rows", "20", "--reference-moves", "100"]
    assert main(["variance", str(out), "--estimators", "jsa", *few]) == 0


def told(run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What is said beside the figures."""
    one = {"theta": LogVariance(1.0, 0.5, 1.5), "phi": LogVariance(2.0, 1.5, 2.5)}
    report = GradientReport(one, one, {}, 3.0)
    monkeypatch.setattr("jsa.evaluation.gradient_variance.gradient_report", lambda *_, **__: report)
    assert main(["variance", str(run_folder), "--estimators", *arguments]) == 0
    return capsys.readouterr().out


def test_objectives_that_differ_are_told(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "different objectives" not in told(run_folder, monkeypatch, capsys, "rloo", "reinforce")
    shown = told(run_folder, monkeypatch, capsys, "rloo", "vimco", "reinforce")
    assert "these are gradients of different objectives: ELBO: rloo, reinforce; multi-sample bound: vimco" in shown


@pytest.mark.parametrize(("name", "learns"), [("nvil", True), ("rebar", True), ("vimco", False), ("hybrid", False)])
def test_what_a_method_learns_beside_the_model_is_untrained_at_the_run_of_another(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, learns: bool
) -> None:
    assert ("are untrained here" in told(run_folder, monkeypatch, capsys, name)) is learns


def test_a_buffer_is_learned_too() -> None:
    class Remembering(VIMCO):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))

    assert Remembering().learns
    assert not VIMCO().learns
