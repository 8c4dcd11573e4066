"""The commands from end to end, on a small table of the user's own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.block_tables import SIZES, blocks, strictly
from helpers.own_tables import save
from helpers.terminal import Terminal, run_jsa
from jsa.estimators.registry import ESTIMATORS


def test_a_run_folder_holds_everything(run_folder: Path) -> None:
    expected = {"config.json", "provenance.jsonl", "metrics.jsonl", "evaluation.json", "samples.csv", "curves.png"}
    expected |= {"best.safetensors", "last.safetensors", "state.safetensors", "tensorboard"}
    assert {path.name for path in run_folder.iterdir()} >= expected
    assert list((run_folder / "tensorboard").iterdir())
    evaluation = json.loads((run_folder / "evaluation.json").read_text())
    assert (evaluation["test"]["rows"], evaluation["test"]["samples"]) == (30, 1000)
    for picture in run_folder.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_configuration_can_be_given_back(run_folder: Path, tmp_path: Path) -> None:
    run_jsa("train --config", run_folder / "config.json", "--out", tmp_path)
    for name in ("config.json", "evaluation.json"):
        assert (tmp_path / name).read_text() == (run_folder / name).read_text()


def test_flags_override_the_configuration_given_back(run_folder: Path, tmp_path: Path) -> None:
    run_jsa("train --config", run_folder / "config.json", "--epochs 2 --hidden 5 --out", tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert (written["epochs"], written["network"]["hidden"], written["network"]["latents"]) == (2, [5], [4])


def test_what_a_run_resolved_for_its_method_and_its_epochs_does_not_bind_others(
    run_folder: Path, tmp_path: Path
) -> None:
    first = json.loads((run_folder / "config.json").read_text())
    assert first["format"] == 4
    assert None not in (first["method"]["particles"], first["stages"]["switch_epoch"], first["machine"]["threads"])
    run_jsa("train --config", run_folder / "config.json", "--estimator concrete --epochs 5 --out", tmp_path)
    again = json.loads((tmp_path / "config.json").read_text())
    assert (again["method"]["particles"], again["method"]["temperature"]) == (1, 0.5)
    assert again["stages"]["switch_epoch"] == 3


def test_evaluate_agrees_with_the_run_and_with_enumeration(run_folder: Path, here: Path, jsa: Terminal) -> None:
    figures = here / "figures.json"
    jsa("evaluate", run_folder, "--bounds 1 10 --json figures.json --threads 1")
    record = json.loads(figures.read_text())
    assert record["nll"] == json.loads((run_folder / "evaluation.json").read_text())["test"]["nll"]
    assert "exact" in jsa("evaluate", run_folder, "--exact --json figures.json").out
    exact = json.loads(figures.read_text())["nll"]
    assert record["nll"] == pytest.approx(exact, abs=6 * record["monte_carlo_error"] + 1e-3)
    assert record["bounds"]["1"] < record["bounds"]["10"] < -exact + 0.01


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


def test_sample_draws_pictures_and_numbers(run_folder: Path, here: Path) -> None:
    for name in ("s.npz", "s.png"):
        run_jsa("sample", run_folder, "--count 7 --out", name)
    with np.load("s.npz") as drawn:
        assert drawn["h"].shape == (7, 4)
        assert drawn["mean"].shape == drawn["x"].shape == (7, 12)
        assert set(np.unique(drawn["x"])) <= {0, 1}
    assert Path("s.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
def test_every_method_trains(table: Path, tmp_path: Path, estimator: str) -> None:
    bits, classes = "two-layers --latents 3 2", "categorical --latents 2 --latent-classes 3 --hidden 4"
    model = f"--model {classes if estimator == 'arsm' else bits} --estimator {estimator}"
    run_jsa("train --data", table, model, FEW, "--out", tmp_path / "run")


FEW = "--epochs 2 --threads 1 --test-samples 20 --validation-samples 10"


@pytest.mark.parametrize(
    "model",
    [
        "categorical --latents 2 --latent-classes 3 --hidden 8 --particles 4",
        "two-layers --latents 4 3 --prior learned --scan random",
        "structured --latents 3 --hidden 8",
        "linear --latents 3 --latent-kind gaussian --schedule robbins-monro",
        "linear --latents 3 --estimator enumeration --optimizer sgd",
        "linear --latents 3 --chains-on-disk --average-decay 0.9 --switch-patience 1",
    ],
    ids=["categorical", "two-layers", "structured", "gaussian", "enumeration", "on disk"],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_every_kind_of_model_trains_samples_and_encodes(here: Path, model: str, classes: int) -> None:
    save("mine.npy", blocks(120, seed=1, classes=classes))
    run_jsa("train --data mine.npy --model", model, FEW, "--out run")
    for command in (
        *("sample run --count 3", "sample run --count 3 --out s.npz", "encode run"),
        "evaluate run --samples 10 --checkpoint last --split valid",
    ):
        run_jsa(command)
    conditional = "structured" in model
    observed = 6 if conditional else 12
    with np.load("s.npz") as drawn:
        assert drawn["x"].shape == (3, observed)
        assert drawn["x"].max() < classes
        assert drawn["mean"].shape == (3, observed * (1 if classes == 2 else classes))
        assert ("context" in drawn) == conditional
        if conditional:
            assert drawn["context"].shape == (3, 6)
            assert drawn["context"].max() == classes - 1


def test_figures_that_do_not_exist_are_null(run_folder: Path, here: Path, jsa: Terminal) -> None:
    shown = []

    def figures(command: str, flags: str) -> dict[str, Any]:
        shown.append(jsa(command, run_folder, flags, "--json f.json").out)
        return strictly(Path("f.json"))

    one_sample = figures("evaluate", "--samples 1")
    assert one_sample["monte_carlo_error"] is one_sample["upward_bias"] is None
    assert figures("evaluate", "--rows 1 --bounds 1")["row_error"] is None
    assert figures("evaluate", "--rows 1 --exact")["effective_sample_size"] is None
    variance = figures("variance", "--estimators enumeration --draws 20 --rows 5")
    assert variance["estimators"]["enumeration"]["total"]["theta"]["log_variance"] is None
    assert re.findall("no variance|nan|inf", "".join(shown)) == ["no variance"] * 4


def test_a_table_with_one_test_row_has_no_error_over_rows(here: Path, jsa: Terminal) -> None:
    save("mine.npy", blocks(40, seed=0))
    save("one.npy", blocks(1, seed=1))
    files, few = "--data mine.npy --test-file one.npy --out run", "--epochs 2 --leading-epochs 2 --validate-every 1"
    trained = jsa("train", files, *SIZES, few, "--test-samples 1").out
    assert "(one row has no error) (one sample per row has no Monte Carlo error)" in trained
    assert strictly(Path("run/evaluation.json"))["test"]["row_error"] is None
    strictly(Path("run/rescored.json"))
    # Read back, it says the same: by a finished run that is continued, and by a page.
    assert jsa("resume run").out == f"the run run is finished\n{trained}"
    jsa("report run")
    assert "nan" not in Path("report.html").read_text(encoding="utf-8").split("</style>")[1].split("<script")[0]


def test_list_tells_the_particles_of_each_method(jsa: Terminal) -> None:
    shown = jsa("list estimators").out
    lines = [line.split(maxsplit=1) for line in shown.splitlines() if line.startswith("    particles ")]
    told = dict(zip(ESTIMATORS, (text for _, text in lines), strict=True))
    assert told["jsa"] == told["vimco"] == told["arm"] == "n = 2 by default"
    assert told["nvil"] == told["rebar"] == "n = 1 by default"
    assert told["arsm"] == told["enumeration"] == "none"


def test_list_names_everything(jsa: Terminal) -> None:
    shown = jsa("list").out
    for name in ("mnist-static", "mnist-salakhutdinov", "two-layers", "structured"):
        assert f"\n  {name} " in shown
    for name, kind in ESTIMATORS.items():
        assert f"\n  {name}\n" in shown
        assert kind.description.reference in shown


def test_a_run_without_out_gets_a_new_folder_each_time(table: Path, here: Path) -> None:
    for _ in range(2):
        run_jsa("train --data", table, *SIZES, "--epochs 1 --test-samples 2")
    assert {path.name for path in Path("runs").iterdir()} == {"mine-linear-jsa-seed0", "mine-linear-jsa-seed0-2"}


@pytest.mark.parametrize("number", [10**14, 10**18])
@pytest.mark.parametrize("setting", ["--latents", "--particles"])
def test_what_needs_too_much_memory_is_one_sentence(
    table: Path, tmp_path: Path, jsa: Terminal, setting: str, number: int
) -> None:
    out = tmp_path / "run"
    said = jsa.refuses("train --data", table, "--model linear", setting, number, "--out", out)
    assert re.fullmatch(rf"jsa: a .* takes about .* GB may be taken: lower {setting} or .*--memory-limit\n", said)
    assert not out.exists()
