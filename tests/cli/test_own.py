"""Own models and methods by ``package.module:name``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import jsa as library
from helpers.own_models import convolutional, images
from helpers.terminal import Terminal, exit_code
from jsa.data import load
from jsa.io.tensor_files import load_tensors

SETTINGS = "--batch-size 20 --validate-every 1 --validation-samples 5 --test-samples 5 --threads 1"
FLAGS = f"--data rows.npy --epochs 4 {SETTINGS}"
OWN = "--model helpers.own_models:convolutional"
METHOD = "--estimator helpers.own_models:OtherMethod"


@pytest.fixture
def table(here: Path) -> Path:
    np.save("rows.npy", images().flatten(1).numpy().astype(np.uint8))
    return here


def figures(run: Path) -> list[dict[str, float]]:
    times = {"training_seconds", "processor_seconds", "seconds"}
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name not in times} for line in lines]


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_tensors(run / "best.safetensors")[0]


def test_it_is_the_same_training_as_in_python(table: Path, jsa: Terminal) -> None:
    jsa("train", OWN, FLAGS, "--out commanded")
    splits = load("rows.npy")
    torch.manual_seed(0)
    config = {"batch_size": 20, "validate_every": 1, "validation_samples": 5, "test_samples": 5, "threads": 1}
    library.fit(convolutional(splits.schema), splits, epochs=4, out="called", config=config)
    assert figures(Path("commanded")) == figures(Path("called"))
    ours, theirs = weights(Path("commanded")), weights(Path("called"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours.keys() | theirs.keys())
    assert json.loads(Path("commanded/config.json").read_text())["network"] is None


def test_commands_take_the_model_again(table: Path, jsa: Terminal) -> None:
    jsa("train", OWN, METHOD, FLAGS, "--out run")
    known = json.loads(Path("run/evaluation.json").read_text())["test"]["nll"]
    jsa("evaluate run --samples 5 --threads 1 --json figures.json", OWN)
    assert json.loads(Path("figures.json").read_text())["nll"] == known
    jsa("encode run --out codes.npz", OWN)
    assert np.load("codes.npz")["h"].shape == (12, 4)
    jsa("sample run --out samples.npz --count 5", OWN)
    jsa("describe run", OWN)
    variance = "variance run --draws 20 --rows 20 --estimators rws helpers.own_models:OtherMethod"
    assert "helpers.own_models:OtherMethod" in jsa(variance, OWN).out
    # Beside a run that has networks of the library.
    jsa("train --model linear --latents 3", FLAGS, "--out ours")
    jsa("report run ours --out page.html")
    assert "helpers.own_models:convolutional" in Path("page.html").read_text()
    for command in ("evaluate run", "encode run", "sample run", "describe run", "variance run"):
        assert "has the model helpers.own_models:convolutional, which no file may load" in jsa.refuses(command)
    assert "--model names an own model, as package.module:factory, and linear" in jsa.refuses(
        "encode run --model linear"
    )


def test_a_stopped_run_goes_on_with_both(table: Path, jsa: Terminal) -> None:
    for name in ("whole", "run"):
        jsa("train", OWN, METHOD, FLAGS, "--out", name)
    # As a stop between training and test leaves it.
    Path("run/evaluation.json").unlink()
    assert "again by --estimator package.module:name" in jsa.refuses("resume run", OWN)
    assert "again by --model package.module:name" in jsa.refuses("resume run", METHOD)
    jsa("resume run", OWN, METHOD)
    assert Path("run/evaluation.json").read_text() == Path("whole/evaluation.json").read_text()
    assert "is finished" in jsa("resume run").out


def test_a_run_from_python_is_continued_in_python(table: Path, jsa: Terminal) -> None:
    torch.manual_seed(0)
    library.fit(convolutional(load("rows.npy").schema), images(), epochs=1, out="run", config={"batch_size": 20})
    Path("run/evaluation.json").unlink()
    assert "continue it with the same call of jsa.fit" in jsa.refuses("resume run", OWN)
    assert "is of rows that were given in Python" in jsa.refuses("train --config run/config.json")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--model absent:make", "--model absent:make: there is no module absent in "),
        ("--model helpers.own_models:make", "helpers.own_models has no make"),
        ("--model helpers.own_models:", "helpers.own_models has no name after the colon"),
        ("--model helpers.own_models:no_model", "helpers.own_models:no_model returned str: return a jsa.LatentVar"),
        ("--model helpers.own_models:torch.pi", "is a float: name a function or class that makes"),
        ("--model broken:make", "--model broken:make: broken cannot be imported (division by zero)"),
        ("--model needing:make", "--model needing:make: needing needs absent_package, which is not installed"),
        ("--estimator helpers.own_models:Convolutional", "is no class of estimators: derive it from jsa.Estimator"),
        ("--model helpers.own_models:convolutional --latents 3", "--latents is for the models of jsa"),
        ("--model liner", "there is no model 'liner': did you mean 'linear'"),
        ("--steps 5", "--steps and --epochs both say how long to train"),
    ],
)
def test_what_cannot_be_used_is_said(table: Path, jsa: Terminal, flags: str, sentence: str) -> None:
    Path("broken.py").write_text("1 / 0\n")
    Path("needing.py").write_text("import absent_package\n")
    before = set(table.iterdir())
    assert sentence in jsa.refuses("train", FLAGS, flags, "--out run")
    assert {path for path in table.iterdir() if path.name != "__pycache__"} == before


def test_an_own_model_is_looked_for_in_the_working_folder(table: Path, jsa: Terminal) -> None:
    code = "from helpers.own_models import Convolutional\n\n\ndef make(schema):\n    return Convolutional(3)\n"
    Path("mine.py").write_text(code)
    jsa("train --model mine:make", FLAGS)
    assert [path.name for path in Path("runs").iterdir()] == ["rows-make-jsa-seed0"]


def test_a_name_in_a_file_is_never_imported(table: Path) -> None:
    assert exit_code("train", OWN, FLAGS, "--out run") == 0
    path, mark = Path("run/config.json"), Path("imported")
    Path("evil.py").write_text("import pathlib\n\npathlib.Path('imported').touch()\n")
    text = path.read_text().replace("helpers.own_models:convolutional", "evil:make").replace('"jsa"', '"evil:Make"')
    path.write_text(text)
    for command in ("resume run", "evaluate run", "variance run", "report run", "train --config run/config.json"):
        exit_code(command)
        assert not mark.exists(), command
    # The name itself would do it.
    exit_code("evaluate run --model evil:make")
    assert mark.exists()
