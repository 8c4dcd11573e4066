"""An analyst with a table of their own: what was read, and the table that changed since the training."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.damage import untouched
from helpers.own_tables import COMMANDS, SIZES, save, spelled
from helpers.small_runs import patterned
from helpers.terminal import Terminal, run_jsa
from jsa.data import DynamicBinarization, Splits, loading

OTHER_TABLE = "d/t.csv is not the table that the run was trained on"

# The table changed since the training


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "sample run --count 3"])
@pytest.mark.parametrize(
    "values", [spelled(200, start=7), spelled(200)[:, :9], spelled(180)], ids=["rows", "columns", "fewer"]
)
def test_a_table_that_changed_is_refused(run: Path, jsa: Terminal, command: str, values: np.ndarray) -> None:
    save("d/t.csv", values)
    assert jsa.refuses(command, code=1).startswith(f"jsa: {OTHER_TABLE}: give the run its data back")


def test_other_test_rows_are_refused(home: Path, jsa: Terminal) -> None:
    save("d/other.csv", spelled(30, start=200))
    run_jsa("train --data d/t.csv --test-file d/other.csv", SIZES, "--out run")
    save("d/other.csv", spelled(30, start=300))
    sentence = "jsa: d/other.csv does not hold the test rows that the run had: give the run its data back"
    assert jsa.refuses("evaluate run", code=1).startswith(sentence)


def test_a_run_of_an_earlier_version_is_taken_as_it_is(run: Path) -> None:
    (run / "identity.json").unlink()
    run_jsa("evaluate run --samples 5")


def test_a_damaged_note_about_the_data_is_one_sentence(run: Path, jsa: Terminal) -> None:
    (run / "identity.json").write_text('{"started_in": "/", "train": 3}')
    assert jsa.refuses("evaluate run").startswith("jsa: run/identity.json: ")


def test_rows_that_are_drawn_anew_are_recognized(home: Path, monkeypatch: pytest.MonkeyPatch, jsa: Terminal) -> None:
    def small(turned: int) -> Splits:
        gray = torch.randint(0, 256, (60, 8), generator=torch.Generator().manual_seed(3), dtype=torch.uint8)
        train = DynamicBinarization(gray ^ turned, seed=0)
        return Splits("mnist-dynamic", train, patterned(20, 1), patterned(20, 2))

    monkeypatch.setitem(loading.BUILDERS, "mnist-dynamic", lambda data_dir, seed: small(0))
    run_jsa("train --data mnist-dynamic", SIZES, "--switch-epoch 2 --out run")
    run_jsa("evaluate run --split train --samples 5")
    monkeypatch.setitem(loading.BUILDERS, "mnist-dynamic", lambda data_dir, seed: small(255))
    assert "mnist-dynamic is not the data that the run was trained on" in jsa.refuses("evaluate run", code=1)


def test_a_run_is_not_continued_with_another_table(run: Path, jsa: Terminal) -> None:
    (run / "evaluation.json").unlink()
    save("d/t.csv", spelled(200, start=7))
    with untouched(run):
        assert OTHER_TABLE in jsa("resume run", code=1).err


@pytest.mark.parametrize("left", [{"config.json"}, {"config.json", "identity.json"}])
def test_a_run_that_begins_again_may_do_so_with_a_mended_table(run: Path, jsa: Terminal, left: set[str]) -> None:
    for path in run.iterdir():
        if path.name not in left:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    save("d/t.csv", spelled(200, start=7))
    run_jsa("resume run")
    run_jsa("evaluate run --samples 5")
    save("d/t.csv", spelled(200))
    assert OTHER_TABLE in jsa.refuses("evaluate run", code=1)


# What was read


@pytest.mark.parametrize(
    ("values", "header", "read", "note"),
    [
        (spelled(200), "", "160 training rows, 20 validation rows, 20 test rows; 12 columns, binary", ""),
        (spelled(200) + spelled(200, start=1), "", "; 12 columns, 3 classes", ""),
        (
            *(np.column_stack([np.arange(200), spelled(200)]), ",a,b,c,d,e,f,g,h,i,j,k,l"),
            "; 13 columns, 200 classes",
            "note: values above 1 occur only in column 1 of new.csv and give every column 200 classes: remove columns "
            "that are not variables, such as row numbers, or check the table with --data-classes 2",
        ),
    ],
    ids=["binary", "classes", "row numbers"],
)
def test_training_says_what_it_read(
    here: Path, jsa: Terminal, values: np.ndarray, header: str, read: str, note: str
) -> None:
    save("new.csv", values, header)
    line, *others = jsa("train --data new.csv", SIZES, "--epochs 1").err.splitlines()
    assert line.startswith("read new.csv: ")
    assert line.endswith(read)
    assert [other for other in others if other.startswith("note: ")][:1] == ([note] if note else [])


@pytest.mark.parametrize(("schedule", "noted"), [("constant", True), ("cosine", False)])
def test_a_run_that_ends_too_early_says_so(home: Path, jsa: Terminal, schedule: str, noted: bool) -> None:
    shown = jsa("train --data d/t.csv", SIZES, "--schedule", schedule, "--out run").out
    assert "best epoch 2," in shown
    assert ("note: the last epoch was the best one: more --epochs" in shown) == noted
