"""A run away from its table, and opened from another folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from helpers.own_tables import COMMANDS, SIZES, codes, means_of, refused, save, spelled
from jsa.cli import main
from jsa.data.schema import Schema
from jsa.runs.build import open_run
from torture.kills import differences

# A run without its data


def test_a_model_is_sampled_from_without_its_data(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def drawn(*flags: str) -> list[np.ndarray]:
        assert main(["sample", "run", "--count", "3", "--out", "drawn.npz", *flags]) == 0
        with np.load("drawn.npz") as file:
            return [file["h"], file["x"]]

    with_data = drawn()
    Path("d/t.csv").unlink()
    assert all(np.array_equal(*pair) for pair in zip(drawn(), with_data, strict=True))
    assert main(["evaluate", "run"]) == 1
    assert "there is no table" in capsys.readouterr().err


def test_a_conditional_model_takes_the_contexts_of_its_samples_from_the_data(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--data", "d/t.csv", *SIZES, "--model", "structured", "--hidden", "4", "--out", "run"]) == 0
    Path("d/t.csv").unlink()
    assert main(["sample", "run", "--count", "3"]) == 1
    assert "there is no table" in capsys.readouterr().err


def test_rows_of_another_table_are_evaluated_and_encoded_without_its_data(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = open_run(run).splits.train
    save(Path("same.csv"), train.rows.numpy())
    assert main(["evaluate", "run", "--split", "train", "--exact"]) == 0
    expected = capsys.readouterr().out.removeprefix("train ")
    Path("d/t.csv").unlink()
    assert main(["evaluate", "run", "--data", "same.csv", "--exact", "--json", "figures.json"]) == 0
    assert capsys.readouterr().out == f"same.csv {expected}"
    assert json.loads(Path("figures.json").read_text())["data"] == "same.csv"
    assert codes("--data", "same.csv")["mean"] == pytest.approx(means_of(train.rows.numpy()), abs=1e-6)
    assert main(["evaluate", "run", "--data", "same.csv", "--split", "valid"]) == 2
    assert "--data takes all rows of same.csv: leave out --split" in capsys.readouterr().err


def test_a_run_whose_data_was_described_less_is_opened_with_its_data(run: Path) -> None:
    record = json.loads((run / "data.json").read_text())
    del record["shape"]
    (run / "data.json").write_text(json.dumps(record))
    assert open_run(run).shape == open_run(run).splits.schema == Schema.of(12)
    save(Path("d/t.csv"), spelled(200, start=7))
    assert main(["sample", "run", "--count", "3"]) == 1


# Another working folder


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_is_opened_from_anywhere(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main([command, "../home/run", *COMMANDS[command]]) == 0


def test_a_run_is_continued_from_anywhere(
    trained: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "evaluation.json").unlink()
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--resume", "home/run"]) == 0
    assert differences(trained, run) == []


def test_the_configuration_names_the_table_as_it_was_given(run: Path) -> None:
    assert open_run(run).config.data == "d/t.csv"
    assert str(run.parent) not in (run / "config.json").read_text()


def test_the_table_of_the_folder_that_the_run_was_begun_in_is_its_table(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "elsewhere" / "d" / "t.csv", spelled(200, start=7))
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["evaluate", "../home/run", "--samples", "5"]) == 0


def test_a_folder_can_be_moved_with_table_and_run(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run.parent.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    assert main(["evaluate", "run", "--samples", "5"]) == 0


def test_other_files_of_the_run_are_found_too(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(Path("d/valid.csv"), spelled(20, start=200))
    save(Path("d/test.csv"), spelled(20, start=300))
    flags = ["--data", "t.csv", "--data-dir", "d", "--valid-file", "d/valid.csv", "--test-file", "test.csv"]
    assert main(["train", *flags, *SIZES, "--out", "run"]) == 0
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", "home/run", "--samples", "5"]) == 0


def test_a_table_that_is_gone_is_found_in_the_folder_that_is_named(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("d").rename("archive")
    said = refused("evaluate", capsys)
    assert said == ("jsa: there is no table d/t.csv: check the path, or give the folder that has it by --data-dir\n")
    assert main(["evaluate", "run", "--samples", "5", "--data-dir", "archive"]) == 0
    (run / "evaluation.json").unlink()
    assert main(["train", "--resume", "run", "--data-dir", "archive"]) == 0


def test_the_folder_that_is_named_comes_before_the_table_that_changed(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree("d", "archive")
    save(Path("d/t.csv"), spelled(200, start=7))
    assert main(["evaluate", "run", "--samples", "5", "--data-dir", "archive"]) == 0
    save(Path("archive/t.csv"), spelled(200, start=8))
    assert "archive/t.csv is not the table" in refused("evaluate", capsys, "--data-dir", "archive")
