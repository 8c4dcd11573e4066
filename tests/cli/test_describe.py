"""An analyst asks what the latent variables of a model stand for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jsa.cli import main

SIZES = ["--model", "linear", "--latents", "3", "--epochs", "1", "--threads", "1", "--learning-rate", "0.02"]
SIZES += ["--validation-samples", "5", "--test-samples", "5"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def baskets(rows: int = 300, classes: int = 2) -> np.ndarray:
    """Who buys bread buys butter; the rest is chance."""
    random = np.random.default_rng(0)
    values = random.integers(0, classes, (rows, 4))
    values[:, 1] = values[:, 0]
    return values


def save(values: np.ndarray, header: str = "bread,butter,milk,soap") -> None:
    np.savetxt("baskets.csv", values, fmt="%d", delimiter=",", header=header, comments="")


def described(capsys: pytest.CaptureFixture[str], *flags: str) -> list[str]:
    capsys.readouterr()
    assert main(["describe", "run", *flags]) == 0
    return capsys.readouterr().out.splitlines()


def test_columns_go_by_their_names(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(baskets())
    assert main(["train", "--data", "baskets.csv", *SIZES, "--latents", "1", "--epochs", "60", "--out", "run"]) == 0
    lines = described(capsys, "--columns", "2")
    assert lines[0] == "1 latent variable next to the data, on 240 train rows"
    assert lines[2] == "bit 1, 100.0% of what all explain"
    assert lines[3].startswith("  on in ")
    assert {line.split()[0] for line in lines[4:]} == {"bread", "butter"}
    low, high = sorted(float(number) for number in lines[4].split() if number[0].isdigit())
    assert low < 0.25
    assert high > 0.75


@pytest.mark.parametrize("model", ["linear", "two-layers", "structured", "categorical"])
@pytest.mark.parametrize("classes", [2, 3])
def test_every_kind_of_model_is_described(
    home: Path, capsys: pytest.CaptureFixture[str], model: str, classes: int
) -> None:
    save(baskets(classes=classes))
    layers = ["--latents", "3", "2"] if model == "two-layers" else ["--latents", "3"]
    layers += ["--latent-classes", "4"] if model == "categorical" else []
    assert main(["train", "--data", "baskets.csv", *SIZES, "--model", model, *layers, "--out", "run"]) == 0
    lines = described(capsys, "--rows", "50", "--variables", "2", "--out", "effects.npz")
    assert lines[0] == "3 latent variables next to the data, on 50 train rows"
    assert lines[-1] == "3 latent variables in effects.npz"
    values, columns = (4 if model == "categorical" else 2), (2 if model == "structured" else 4)
    with np.load("effects.npz") as found:
        width = columns if classes == 2 else columns * classes
        assert found["shares"].shape == (3, values)
        assert found["means"].shape == (3, values, width)
        strongest = np.argsort(-found["explained"])[:2] + 1
    shown = [line for line in lines if "of what all explain" in line]
    assert [line.split(",")[0].split()[1] for line in shown] == [str(number) for number in strongest]
    # The first columns are given to a conditional model.
    observed = ["milk", "soap"] if model == "structured" else ["bread", "butter", "milk", "soap"]
    possible = observed if classes == 2 else [f"{name} = {value}" for name in observed for value in range(classes)]
    named = {line.strip().split("  ")[0] for line in lines if "->" in line}
    assert named
    assert named <= set(possible)


def test_columns_without_names_go_by_their_places(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("baskets.npy", baskets())
    assert main(["train", "--data", "baskets.npy", *SIZES, "--out", "run"]) == 0
    named = {line.split("  ")[2].strip() for line in described(capsys) if "->" in line}
    assert named == {"column 1", "column 2", "column 3", "column 4"}


@pytest.mark.parametrize(
    ("flags", "code", "sentence"),
    [
        (["--out", "effects.csv"], 2, "effects.csv must end in .npz for arrays"),
        (["--out", "none/effects.npz"], 2, "there is no folder none: make it, or choose another --out"),
        (["--variables", "0"], 2, "variables is 1 or more, not 0"),
        (["--columns", "0"], 2, "columns is 1 or more, not 0"),
        (["--rows", "0"], 2, "rows is 1 or more, not 0"),
    ],
)
def test_what_cannot_be_described_is_said(
    home: Path, capsys: pytest.CaptureFixture[str], flags: list[str], code: int, sentence: str
) -> None:
    save(baskets())
    assert main(["train", "--data", "baskets.csv", *SIZES, "--out", "run"]) == 0
    capsys.readouterr()
    assert main(["describe", "run", *flags]) == code
    assert sentence in capsys.readouterr().err
    assert not list(home.glob("effects*"))


def test_gaussian_variables_are_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(baskets())
    assert main(["train", "--data", "baskets.csv", *SIZES, "--latent-kind", "gaussian", "--out", "run"]) == 0
    assert main(["describe", "run"]) == 2
    assert "this model has Gaussian variables: use jsa encode" in capsys.readouterr().err
