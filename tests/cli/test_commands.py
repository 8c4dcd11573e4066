"""The commands from end to end, on a small table of the user's own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.block_tables import SIZES, blocks, strictly
from jsa.cli import main
from jsa.estimators.registry import ESTIMATORS
from jsa.runs.build import open_run


def test_a_run_folder_holds_everything(run_folder: Path) -> None:
    expected = {
        "config.json",
        "provenance.jsonl",
        "metrics.jsonl",
        "best.safetensors",
        "last.safetensors",
        "state.safetensors",
    }
    expected |= {"evaluation.json", "samples.csv", "curves.png", "tensorboard"}
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


@pytest.mark.parametrize("bounds", [[], ["--bounds", "1", "5"]])
def test_a_reader_who_goes_away_does_not_cost_the_files(run_folder: Path, tmp_path: Path, bounds: list[str]) -> None:
    command = [sys.executable, "-m", "jsa", "evaluate", str(run_folder), "--samples", "5", *bounds]
    files = [tmp_path / "nll.json", tmp_path / "nll.csv"]
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as pipe:  # noqa: PTH123
        flags = ["--json", str(files[0]), "--out", str(files[1])]
        done = subprocess.run([*command, *flags], stdout=pipe, stderr=subprocess.PIPE, text=True)
    assert "Traceback" not in done.stderr
    assert all(file.is_file() for file in files)


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
        ["--model", "linear", "--latents", "3", "--estimator", "enumeration", "--optimizer", "sgd"],
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


def test_list_tells_the_particles_of_each_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "estimators"]) == 0
    shown = capsys.readouterr().out
    lines = [line.split(maxsplit=1) for line in shown.splitlines() if line.startswith("    particles ")]
    told = dict(zip(ESTIMATORS, (text for _, text in lines), strict=True))
    assert told["jsa"] == told["vimco"] == told["arm"] == "n = 2 by default"
    assert told["nvil"] == told["rebar"] == "n = 1 by default"
    assert told["arsm"] == told["enumeration"] == "none"


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


@pytest.mark.parametrize("number", [10**14, 10**18, 10**23])
@pytest.mark.parametrize("setting", ["--latents", "--particles"])
def test_what_needs_too_much_memory_is_one_sentence(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, number: int
) -> None:
    out = tmp_path / "run"
    assert main(["train", "--data", str(table), "--model", "linear", setting, str(number), "--out", str(out)]) == 1
    assert capsys.readouterr().err == ("jsa: not enough memory: use fewer latents, particles, samples or rows\n")
    assert not out.exists()
