"""A run away from its table, and opened from another folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from helpers.own_tables import COMMANDS, SIZES, arrays_of, means_of, save, spelled
from helpers.terminal import Terminal, run_jsa
from jsa.data import IndexedDataset
from jsa.front.run import open_run
from torture.kills import differences

EVALUATE = "evaluate run --samples 5"

# A run without its data


def test_a_model_is_sampled_from_without_its_data(run: Path, jsa: Terminal) -> None:
    with_data = arrays_of("sample run --count 3")
    Path("d/t.csv").unlink()
    without = arrays_of("sample run --count 3")
    assert all(np.array_equal(without[name], with_data[name]) for name in ("h", "x"))
    assert "there is no table" in jsa.refuses("evaluate run", code=1)


def test_a_conditional_model_takes_the_contexts_of_its_samples_from_the_data(home: Path, jsa: Terminal) -> None:
    run_jsa("train --data d/t.csv", SIZES, "--model structured --hidden 4 --out run")
    Path("d/t.csv").unlink()
    assert "there is no table" in jsa.refuses("sample run --count 3", code=1)


def test_rows_of_another_table_are_evaluated_and_encoded_without_its_data(run: Path, jsa: Terminal) -> None:
    train = open_run(run).splits.train
    assert isinstance(train, IndexedDataset)
    save("same.csv", train.rows.numpy())
    expected = jsa("evaluate run --split train --exact").out.removeprefix("train ")
    Path("d/t.csv").unlink()
    assert jsa("evaluate run --data same.csv --exact --json figures.json").out == f"same.csv {expected}"
    assert json.loads(Path("figures.json").read_text())["data"] == "same.csv"
    assert arrays_of("encode run --data same.csv")["mean"] == pytest.approx(means_of(train.rows.numpy()), abs=1e-6)
    said = jsa.refuses("evaluate run --data same.csv --split valid")
    assert "--data takes all rows of same.csv: leave out --split" in said


# Another working folder


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another folder to work in, in which there is another table of that name."""
    save(tmp_path / "elsewhere" / "d" / "t.csv", spelled(200, start=7))
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "elsewhere"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_is_opened_from_anywhere(run: Path, elsewhere: Path, command: str) -> None:
    """Its table is that of the folder that it was begun in."""
    run_jsa(command.replace(" run", " ../home/run", 1))


def test_a_run_is_continued_from_anywhere(trained: Path, run: Path, elsewhere: Path) -> None:
    (run / "evaluation.json").unlink()
    run_jsa("resume ../home/run")
    assert differences(trained, run) == []


def test_the_configuration_names_the_table_as_it_was_given(run: Path) -> None:
    assert open_run(run).config.data == "d/t.csv"
    assert str(run.parent) not in (run / "config.json").read_text()


def test_a_folder_can_be_moved_with_table_and_run(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run.parent.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    run_jsa(EVALUATE)


def test_other_files_of_the_run_are_found_too(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save("d/valid.csv", spelled(20, start=200))
    save("d/test.csv", spelled(20, start=300))
    files = "--data t.csv --data-dir d --valid-file d/valid.csv --test-file test.csv"
    run_jsa("train", files, SIZES, "--out run")
    monkeypatch.chdir(tmp_path)
    run_jsa("evaluate home/run --samples 5")


def test_a_table_that_is_gone_is_found_in_the_folder_that_is_named(run: Path, jsa: Terminal) -> None:
    Path("d").rename("archive")
    sentence = "jsa: there is no table d/t.csv: check the path, or give the folder that has it by --data-dir\n"
    assert jsa.refuses(EVALUATE, code=1) == sentence
    run_jsa(EVALUATE, "--data-dir archive")
    (run / "evaluation.json").unlink()
    run_jsa("resume run --data-dir archive")


def test_the_folder_that_is_named_comes_before_the_table_that_changed(run: Path, jsa: Terminal) -> None:
    shutil.copytree("d", "archive")
    save("d/t.csv", spelled(200, start=7))
    run_jsa(EVALUATE, "--data-dir archive")
    save("archive/t.csv", spelled(200, start=8))
    assert "archive/t.csv is not the table" in jsa.refuses(EVALUATE, "--data-dir archive", code=1)
