"""The commands from end to end, on a small table of the user's own."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from jsa import JSA, Batch, ChainCache
from jsa.assembly import open_run
from jsa.cli import main
from jsa.errors import UsageError
from jsa.estimators import ESTIMATORS, NVIL, VIMCO, Estimator
from jsa.evaluation.gradient_variance import GradientReport
from jsa.evaluation.score import LogVariance
from jsa.tensors import load_tensors
from jsa.training.checkpoint import save_weights
from jsa.training.state import read_chains

SIZES = ["--model", "linear", "--latents", "4", "--epochs", "4", "--learning-rate", "0.02", "--threads", "1"]


def blocks(rows: int, seed: int, classes: int = 2) -> np.ndarray:
    """Twelve columns in three blocks of equal values, a few of them disturbed."""
    random = np.random.default_rng(seed)
    values = np.repeat(random.integers(0, classes, (rows, 3)), 4, axis=1)
    disturbed = random.random(values.shape) < 0.05
    return np.where(disturbed, random.integers(0, classes, values.shape), values)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "mine.csv"
    np.savetxt(path, blocks(300, seed=0), fmt="%d", delimiter=",")
    return path


@pytest.fixture(scope="module")
def run_folder(table: Path) -> Path:
    out = table.parent / "run"
    assert main(["train", "--data", str(table), *SIZES, "--out", str(out)]) == 0
    return out


def test_a_run_folder_holds_everything(run_folder: Path) -> None:
    expected = {
        "config.json",
        "provenance.jsonl",
        "metrics.jsonl",
        "best.safetensors",
        "last.safetensors",
        "state.safetensors",
    }
    expected |= {"evaluation.json", "samples.png", "reconstructions.png", "curves.png", "tensorboard"}
    assert {path.name for path in run_folder.iterdir()} >= expected
    assert list((run_folder / "tensorboard").iterdir())
    evaluation = json.loads((run_folder / "evaluation.json").read_text())
    assert evaluation["test"]["rows"] == 30
    assert evaluation["test"]["samples"] == 1000
    for picture in run_folder.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_configuration_can_be_given_back(run_folder: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert main(["train", "--config", str(run_folder / "config.json"), "--out", str(again)]) == 0
    assert (again / "config.json").read_text() == (run_folder / "config.json").read_text()
    first, second = (json.loads((folder / "evaluation.json").read_text()) for folder in (run_folder, again))
    assert first == second


def test_flags_override_the_configuration_given_back(run_folder: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    config = str(run_folder / "config.json")
    assert main(["train", "--config", config, "--epochs", "2", "--hidden", "5", "--out", str(again)]) == 0
    written = json.loads((again / "config.json").read_text())
    assert written["epochs"] == 2
    assert written["network"]["hidden"] == [5]
    assert written["network"]["latents"] == [4]


def test_evaluate_agrees_with_the_run_and_with_enumeration(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "figures.json"
    command = ["evaluate", str(run_folder), "--bounds", "1", "10", "--json", str(figures), "--threads", "1"]
    assert main(command) == 0
    record = json.loads(figures.read_text())
    assert record["nll"] == json.loads((run_folder / "evaluation.json").read_text())["test"]["nll"]
    assert main(["evaluate", str(run_folder), "--exact", "--json", str(figures)]) == 0
    exact = json.loads(figures.read_text())["nll"]
    assert record["nll"] == pytest.approx(exact, abs=6 * record["monte_carlo_error"] + 1e-3)
    assert record["bounds"]["1"] < record["bounds"]["10"] < -exact + 0.01
    assert "exact" in capsys.readouterr().out


def test_sample_draws_pictures_and_numbers(run_folder: Path, tmp_path: Path) -> None:
    assert main(["sample", str(run_folder), "--count", "7", "--out", str(tmp_path / "s.npz")]) == 0
    with np.load(tmp_path / "s.npz") as drawn:
        assert drawn["h"].shape == (7, 4)
        assert drawn["mean"].shape == drawn["x"].shape == (7, 12)
        assert set(np.unique(drawn["x"])) <= {0, 1}
    assert main(["sample", str(run_folder), "--count", "7", "--out", str(tmp_path / "s.png")]) == 0
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")


def test_encode_writes_one_code_a_row_in_order(run_folder: Path, tmp_path: Path) -> None:
    for name in ("one.npz", "two.npz"):
        assert main(["encode", str(run_folder), "--split", "train", "--out", str(tmp_path / name)]) == 0
    with np.load(tmp_path / "one.npz") as one, np.load(tmp_path / "two.npz") as two:
        assert one["h"].shape == (240, 4)
        assert one["h"].dtype == np.uint8
        assert np.array_equal(one["h"], two["h"])
        opened = open_run(run_folder)
        row = opened.splits.train.batch(torch.tensor([137]))
        probabilities = opened.model.posterior(row).first.mean[0].detach().numpy()
        assert one["mean"][137] == pytest.approx(probabilities, abs=1e-6)
        # The draws follow the probabilities: 960 bits, failure rate below 1e-6.
        spread = np.sqrt((one["mean"] * (1 - one["mean"])).sum())
        assert abs((one["h"] - one["mean"]).sum()) < 5 * spread


@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
def test_every_method_trains(table: Path, tmp_path: Path, estimator: str) -> None:
    bits = ["--model", "two-layers", "--latents", "3", "2"]
    classes = ["--model", "categorical", "--latents", "2", "--latent-classes", "3", "--hidden", "4"]
    flags = [*(classes if estimator == "arsm" else bits), "--estimator", estimator, "--threads", "1"]
    sizes = ["--epochs", "2", "--test-samples", "20", "--validation-samples", "10"]
    assert main(["train", "--data", str(table), *flags, *sizes, "--out", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize(
    "flags",
    [
        ["--model", "categorical", "--latents", "2", "--latent-classes", "3", "--hidden", "8", "--particles", "4"],
        ["--model", "two-layers", "--latents", "4", "3", "--prior", "learned", "--scan", "random"],
        ["--model", "structured", "--latents", "3", "--hidden", "8"],
        ["--model", "linear", "--latents", "3", "--latent-kind", "gaussian", "--schedule", "robbins-monro"],
        ["--model", "linear", "--latents", "3", "--estimator", "enumeration", "--optimiser", "sgd"],
        ["--model", "linear", "--latents", "3", "--mapped-chains", "--average-decay", "0.9", "--switch-patience", "1"],
    ],
    ids=["categorical", "two-layers", "structured", "gaussian", "enumeration", "mapped"],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_every_kind_of_model_trains_samples_and_encodes(tmp_path: Path, flags: list[str], classes: int) -> None:
    table, out = tmp_path / "mine.npy", tmp_path / "run"
    np.save(table, blocks(120, seed=1, classes=classes))
    common = ["--epochs", "2", "--threads", "1", "--test-samples", "20", "--validation-samples", "10"]
    assert main(["train", "--data", str(table), *flags, *common, "--out", str(out)]) == 0
    assert main(["sample", str(out), "--count", "3"]) == 0
    assert main(["sample", str(out), "--count", "3", "--out", str(tmp_path / "s.npz")]) == 0
    observed = 6 if "structured" in flags else 12
    with np.load(tmp_path / "s.npz") as drawn:
        assert drawn["x"].shape == (3, observed)
        assert drawn["x"].max() < classes
        assert drawn["mean"].shape == (3, observed * (1 if classes == 2 else classes))
        assert ("context" in drawn) == ("structured" in flags)
        if "context" in drawn:
            assert drawn["context"].shape == (3, 6)
            assert drawn["context"].max() == classes - 1
    assert main(["encode", str(out)]) == 0
    assert main(["evaluate", str(out), "--samples", "10", "--checkpoint", "last", "--split", "valid"]) == 0


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


def strictly(path: Path) -> dict:
    """The content of a JSON file, where NaN and infinite numbers are none."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{path} holds {name}, which is no JSON")

    return json.loads(path.read_text(), parse_constant=refuse)


def test_figures_that_do_not_exist_are_null(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "figures.json"
    evaluate = ["evaluate", str(run_folder), "--json", str(figures)]
    assert main([*evaluate, "--samples", "1"]) == 0
    assert strictly(figures)["monte_carlo_error"] is strictly(figures)["upward_bias"] is None
    assert main([*evaluate, "--rows", "1", "--bounds", "1"]) == 0
    assert strictly(figures)["row_error"] is None
    assert main([*evaluate, "--rows", "1", "--exact"]) == 0
    assert strictly(figures)["effective_sample_size"] is None
    few = ["--draws", "20", "--rows", "5", "--json", str(figures)]
    assert main(["variance", str(run_folder), "--estimators", "enumeration", *few]) == 0
    assert strictly(figures)["estimators"]["enumeration"]["total"]["theta"]["log_variance"] is None
    shown = capsys.readouterr().out
    assert "no variance" in shown
    for name in ("nan", "inf"):
        assert name not in shown


def test_a_table_with_one_test_row_has_no_error_over_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("mine.npy", blocks(40, seed=0))
    np.save("one.npy", blocks(1, seed=1))
    train = ["train", "--data", "mine.npy", "--test-file", "one.npy", *SIZES, "--epochs", "2", "--out", "run"]
    assert main([*train, "--leading-epochs", "2", "--validate-every", "1", "--test-samples", "1"]) == 0
    trained = capsys.readouterr().out
    assert "(one row has no error) (one sample a row has no Monte Carlo error)" in trained
    for name in ("evaluation.json", "rescored.json"):
        strictly(Path("run", name))
    assert strictly(Path("run/evaluation.json"))["test"]["row_error"] is None
    # Read back, it says the same: by a finished run that is continued, and by a page.
    assert main(["train", "--resume", "run"]) == 0
    assert capsys.readouterr().out == f"the run run is finished\n{trained}"
    assert main(["report", "run"]) == 0
    assert "nan" not in Path("report.html").read_text(encoding="utf-8").split("</style>")[1].split("<script")[0]


def test_variance_refuses_before_it_measures(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(*_: object, **__: object) -> None:
        raise AssertionError("nothing is to be measured")

    for name in ("gradient_report", "posterior_gradient"):
        monkeypatch.setattr(f"jsa.evaluation.gradient_variance.{name}", measured)
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


def test_list_tells_the_particles_of_each_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "estimators"]) == 0
    shown = capsys.readouterr().out
    lines = [line.split(maxsplit=1) for line in shown.splitlines() if line.startswith("    particles ")]
    told = dict(zip(ESTIMATORS, (text for _, text in lines), strict=True))
    assert told["jsa"] == told["vimco"] == told["arm"] == "n = 2 where --particles is not given"
    assert told["nvil"] == told["rebar"] == "n = 1 where --particles is not given"
    assert told["arsm"] == told["enumeration"] == "it takes none"


def test_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    for name in ("mnist-static", "mnist-salakhutdinov", "two-layers", "structured"):
        assert f"\n  {name} " in shown
    for name, kind in ESTIMATORS.items():
        assert f"\n  {name}\n" in shown
        assert kind.description.reference in shown


def test_a_run_without_out_gets_a_new_folder_each_time(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        command = ["train", "--data", str(table), *SIZES, "--epochs", "1", "--test-samples", "2"]
        assert main(command) == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "mine-linear-jsa-seed0",
        "mine-linear-jsa-seed0-2",
    ]


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
        begun.append(estimator.cache.read(batch.index))
        raise UsageError("enough")

    monkeypatch.setattr("jsa.evaluation.gradient_variance.gradient_report", recorded)
    assert main(["variance", str(out), "--estimators", "jsa", "--rows", "20", "--reference-moves", "100"]) == 2
    folder = out / "chains" if chains else None
    cache = ChainCache(open_run(out).model.latent, 240, folder)
    cache.restore(read_chains(out / "state.safetensors"))
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
    assert measured[NVIL].centres != 0
    for name, tensor in measured[NVIL].state_dict().items():
        assert torch.equal(tensor, tensors[f"learner:estimator.{name}"])
    assert (
        "\nrebar: what this method learns beside the model, such as baselines, is untrained" in capsys.readouterr().out
    )


def test_variance_of_chains_on_a_run_that_has_none(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    sizes = ["--epochs", "1", "--particles", "2", "--model", "linear", "--latents", "3", "--test-samples", "5"]
    assert main(["train", "--data", str(table), "--estimator", "rloo", *sizes, "--out", str(out)]) == 0
    few = ["--draws", "20", "--rows", "20", "--reference-moves", "100"]
    assert main(["variance", str(out), "--estimators", "jsa", *few]) == 0


@pytest.mark.parametrize("number", [10**14, 10**18, 10**23])
@pytest.mark.parametrize("setting", ["--latents", "--particles"])
def test_what_needs_too_much_memory_is_one_sentence(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, number: int
) -> None:
    out = tmp_path / "run"
    assert main(["train", "--data", str(table), "--model", "linear", setting, str(number), "--out", str(out)]) == 1
    assert capsys.readouterr().err == (
        "jsa: there is not enough memory for this: ask for fewer latents, particles, samples or rows\n"
    )
    assert not out.exists()
