"""An analyst asks what the latent variables of a model stand for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.own_tables import SIZES, save
from helpers.terminal import Terminal, run_jsa

NAMES = "bread,butter,milk,soap"
TRAIN = f"train --data baskets.csv {SIZES} --epochs 1 --out run"


def baskets(classes: int = 2) -> np.ndarray:
    """Who buys bread buys butter; the rest is chance."""
    values = np.random.default_rng(0).integers(0, classes, (300, 4))
    values[:, 1] = values[:, 0]
    return values


@pytest.fixture(autouse=True)
def _table_of_baskets(here: Path) -> None:
    save("baskets.csv", baskets(), NAMES)


def test_columns_go_by_their_names(jsa: Terminal) -> None:
    run_jsa(TRAIN, "--latents 1 --epochs 60")
    lines = jsa("describe run --columns 2").out.splitlines()
    assert lines[0] == "1 latent variable next to the data, on 240 train rows"
    assert lines[2] == "bit 1, 100.0% of what all explain"
    assert lines[3].startswith("  on in ")
    assert {line.split()[0] for line in lines[4:]} == {"bread", "butter"}
    low, high = sorted(float(number) for number in lines[4].split() if number[0].isdigit())
    assert low < 0.25
    assert high > 0.75


@pytest.mark.parametrize("model", ["linear", "two-layers", "structured", "categorical"])
@pytest.mark.parametrize("classes", [2, 3])
def test_every_kind_of_model_is_described(jsa: Terminal, model: str, classes: int) -> None:
    save("baskets.csv", baskets(classes), NAMES)
    flags = {"two-layers": "--latents 3 2", "categorical": "--latent-classes 4"}
    run_jsa(TRAIN, f"--model {model}", flags.get(model, ""))
    lines = jsa("describe run --rows 50 --variables 2 --out effects.npz").out.splitlines()
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
    observed = NAMES.split(",")[-columns:]
    possible = observed if classes == 2 else [f"{name} = {value}" for name in observed for value in range(classes)]
    named = {line.strip().split("  ")[0] for line in lines if "->" in line}
    assert named
    assert named <= set(possible)


def test_columns_without_names_go_by_their_places(jsa: Terminal) -> None:
    save("baskets.csv", baskets())
    run_jsa(TRAIN)
    named = {line.split("  ")[2].strip() for line in jsa("describe run").out.splitlines() if "->" in line}
    assert named == {"column 1", "column 2", "column 3", "column 4"}


def test_what_cannot_be_described_is_said(here: Path, jsa: Terminal) -> None:
    run_jsa(TRAIN)
    for flags, sentence in {
        "--out effects.csv": "effects.csv must end in .npz for arrays",
        "--out none/effects.npz": "there is no folder none: make it, or choose another --out",
    }.items():
        assert sentence in jsa.refuses("describe run", flags)
    assert not list(here.glob("effects*"))


def test_gaussian_variables_are_refused(jsa: Terminal) -> None:
    run_jsa(TRAIN, "--latent-kind gaussian")
    assert "this model are Gaussian: encode rows instead" in jsa.refuses("describe run")
