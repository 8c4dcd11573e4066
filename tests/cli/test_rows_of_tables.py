"""Codes and likelihoods of the rows of a table lead back to them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from helpers.own_tables import SIZES, arrays_of, means_of, save, spelled
from helpers.terminal import Terminal, run_jsa

# Codes of rows


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_codes_lead_back_to_the_rows_of_the_table(run: Path, split: str) -> None:
    found = arrays_of(f"encode run --split {split}")
    assert set(found) == {"h", "mean", "rows"}
    assert len(found["rows"]) == (160 if split == "train" else 20)
    assert found["mean"] == pytest.approx(means_of(spelled(200)[found["rows"]]), abs=1e-6)
    assert found["h"].dtype == np.uint8
    assert np.array_equal(found["h"], arrays_of(f"encode run --split {split}")["h"])


def test_all_rows_of_one_table_come_in_its_order(run: Path) -> None:
    found = arrays_of("encode run --split all")
    assert found["rows"].tolist() == list(range(200))
    assert found["mean"] == pytest.approx(means_of(spelled(200)), abs=1e-6)
    for split in ("train", "valid", "test"):
        rows = arrays_of(f"encode run --split {split}")["rows"]
        assert np.flatnonzero(found["split"] == split).tolist() == rows.tolist()
    # The draws follow the probabilities: 600 bits, failure rate below 1e-6.
    spread = np.sqrt((found["mean"] * (1 - found["mean"])).sum())
    assert abs((found["h"] - found["mean"]).sum()) < 5 * spread


def test_all_rows_of_several_tables_come_one_after_the_other(home: Path) -> None:
    save("d/other.csv", spelled(30, start=200))
    run_jsa("train --data d/t.csv --test-file d/other.csv", SIZES, "--out run")
    found = arrays_of("encode run --split all")
    assert found["split"].tolist() == ["train"] * 180 + ["valid"] * 20 + ["test"] * 30
    assert sorted(found["rows"][:200]) == list(range(200))
    assert found["rows"][200:].tolist() == list(range(30))
    whole = np.concatenate([spelled(200)[found["rows"][:200]], spelled(30, start=200)])
    assert found["mean"] == pytest.approx(means_of(whole), abs=1e-6)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("model", ["linear", "structured"])
def test_rows_of_another_table_are_encoded(here: Path, classes: int, model: str) -> None:
    random = np.random.default_rng(0)
    save("t.csv", random.integers(0, classes, (100, 6)))
    # The largest class is missing there: it is the run that says how many classes there are.
    other = random.integers(0, max(2, classes - 1), (7, 6))
    save("new.csv", other)
    run_jsa("train --data t.csv", SIZES, f"--model {model} --hidden 4 --out run")
    found = arrays_of("encode run --data new.csv")
    assert set(found) == {"h", "mean", "rows"}
    assert found["rows"].tolist() == list(range(7))
    assert found["mean"] == pytest.approx(means_of(other), abs=1e-6)


def test_codes_of_another_table_have_a_file_of_their_own(run: Path) -> None:
    save("d/test.csv", spelled(5))
    for flags in ("", "--data d/test.csv", "--split all"):
        run_jsa("encode run", flags)
    assert {path.name for path in run.glob("codes-*")} == {"codes-test.npz", "codes-test.csv.npz", "codes-all.npz"}


@pytest.mark.parametrize(
    ("flags", "code", "sentence"),
    [
        ("--data d/wide.csv", 1, "d/wide.csv must have as many columns as the data of the run: 12, not 13"),
        ("--data d/high.csv", 1, "d/high.csv: row 1, column 1 (counted from 1) holds 2, but 2 classes go up to 1"),
        ("--data d/none.csv", 1, "d/none.csv cannot be read"),
        ("--data d/t.csv --split all", 2, "--data takes all rows of d/t.csv: leave out --split"),
    ],
)
def test_what_cannot_be_encoded_is_said(run: Path, jsa: Terminal, flags: str, code: int, sentence: str) -> None:
    save("d/wide.csv", np.column_stack([spelled(5), np.ones(5)]))
    save("d/high.csv", 2 - spelled(5))
    assert sentence in jsa.refuses("encode run", flags, code=code)
    assert not list(run.glob("codes-*"))


# The likelihood of each row


def test_the_nll_of_each_row_leads_back_to_it(run: Path, jsa: Terminal) -> None:
    found = arrays_of("evaluate run --exact --split valid --json figures.json")
    assert "20 NLLs in nll.npz" in jsa("evaluate run --exact --split valid --out nll.npz").out
    assert found["rows"].tolist() == arrays_of("encode run --split valid")["rows"].tolist()
    assert found["nll"].mean() == pytest.approx(json.loads(Path("figures.json").read_text())["nll"], rel=1e-12)
    # The same rows in another order, as a table of their own.
    save("turned.csv", spelled(200)[found["rows"]][::-1])
    turned = arrays_of("evaluate run --exact --data turned.csv")
    assert turned["rows"].tolist() == list(range(20))
    assert turned["nll"] == pytest.approx(found["nll"][::-1], rel=1e-6)


def test_the_nll_of_the_first_rows_by_samples_and_by_annealing(run: Path, jsa: Terminal) -> None:
    exact = arrays_of("evaluate run --rows 7 --exact")
    assert np.isinf(exact["effective_sample_size"]).all()
    # Annealing comes close with few samples.
    for flags, samples, tolerance in (("--samples 5000", 5000, 0.2), ("--annealing-steps 50", 16, 0.3)):
        found = arrays_of(f"evaluate run --rows 7 {flags}")
        assert len(found["rows"]) == len(found["nll"]) == 7
        assert found["nll"] == pytest.approx(exact["nll"], abs=tolerance)
        assert (found["effective_sample_size"] <= samples).all()
    shown = jsa("evaluate run --rows 7 --annealing-steps 50 --json figures.json").out
    assert "(Monte Carlo, 16 samples of 50 annealing steps)" in shown
    assert json.loads(Path("figures.json").read_text())["annealing_steps"] == 50
    said = jsa.refuses("evaluate run --exact --annealing-steps 50")
    assert "--exact sums over all states, so nothing is annealed: leave out" in said
