"""Tables of words, from training to the words that are drawn and filled in."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jsa.cli import main

NAMES = ["smokes", "color", "sport", "children"]
SIZES = ["--model", "linear", "--latents", "3", "--epochs", "60", "--learning-rate", "0.03", "--threads", "1"]


def people(rows: int, seed: int) -> list[list[str]]:
    """Who smokes likes red and no sport; the others like any color, and sport."""
    generator = np.random.default_rng(seed)
    smokes = generator.random(rows) < 0.4
    colors = np.where(smokes, "red", generator.choice(["red", "green", "blue"], rows))
    children = generator.integers(0, 4, rows)
    columns = (np.where(smokes, "yes", "no"), colors, np.where(smokes, "no", "yes"), children.astype(str))
    return np.stack(columns, axis=1).tolist()


def save(path: Path, rows: list[list[str]], names: list[str] | None = NAMES) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([*([names] if names else []), *rows])
    return path


def read(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        names, *rows = csv.reader(file)
    assert names == NAMES
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a table of words, in ``run``."""
    folder = tmp_path_factory.mktemp("people")
    save(folder / "people.csv", people(400, seed=0))
    assert main(["train", "--data", str(folder / "people.csv"), *SIZES, "--out", str(folder / "run")]) == 0
    return folder


def test_a_run_knows_its_words(folder: Path) -> None:
    words = json.loads((folder / "run" / "data.json").read_text())["shape"]["words"]
    assert words == [["no", "yes"], ["blue", "green", "red"], ["no", "yes"], []]


def test_words_are_filled_in(folder: Path) -> None:
    holes, whole = people(100, seed=1), people(100, seed=1)
    for number, row in enumerate(holes):
        row[number % 3] = ""
    # Another order of rows, and no header: words say what they are.
    table = save(folder / "holes.csv", holes[::-1], names=None)
    assert main(["impute", str(folder / "run"), "--data", str(table), "--out", str(folder / "filled.csv")]) == 0
    filled = read(folder / "filled.csv")[::-1]
    kept = [
        (given, found) for row, line in zip(holes, filled, strict=True) for given, found in zip(row, line, strict=True)
    ]
    assert all(given in ("", found) for given, found in kept)
    for column, right in ((0, 0.95), (1, 0.3), (2, 0.95)):
        hits = [one[column] == other[column] for one, other in zip(filled, whole, strict=True)][column::3]
        assert np.mean(hits) > right


def test_words_are_drawn(folder: Path) -> None:
    assert main(["sample", str(folder / "run"), "--count", "2000", "--out", str(folder / "drawn.csv")]) == 0
    drawn = np.array(read(folder / "drawn.csv"))
    for column, words in enumerate([{"yes", "no"}, {"red", "green", "blue"}, {"yes", "no"}, {"0", "1", "2", "3"}]):
        assert set(drawn[:, column]) == words
    smokes = drawn[:, 0] == "yes"
    assert smokes.mean() == pytest.approx(0.4, abs=0.1)
    assert (drawn[smokes, 2] == "no").mean() > 0.9


def test_words_describe_and_are_scored(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", str(folder / "run"), "--variables", "1"]) == 0
    assert "smokes = yes" in capsys.readouterr().out
    likely, unlikely = (save(folder / f"{name}.csv", [["yes", "red", name, "1"]] * 2) for name in ("no", "yes"))
    found = []
    for table in (likely, unlikely):
        figures = folder / "nll.npz"
        assert main(["evaluate", str(folder / "run"), "--data", str(table), "--out", str(figures)]) == 0
        found.append(float(np.load(figures)["nll"][0]))
    assert found[0] + 2 < found[1]


def test_words_that_a_terminal_cannot_show_are_shown_for_all_that(folder: Path, tmp_path: Path) -> None:
    rows = [["ja" if cell == "yes" else cell.replace("green", "grün") for cell in row] for row in people(100, seed=0)]
    table, run = save(tmp_path / "people.csv", rows), tmp_path / "run"
    assert main(["train", "--data", str(table), *SIZES, "--epochs", "1", "--out", str(run)]) == 0
    command = [sys.executable, "-m", "jsa", "describe", str(run), "--columns", "100"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "color = gr\\xfcn" in done.stdout


def test_other_words_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = save(folder / "other.csv", [["sometimes", "red", "no", "1"]] * 2)
    assert main(["evaluate", str(folder / "run"), "--data", str(table)]) == 1
    sentence = "holds 'sometimes', which is none of the words of that column in the data of the run: no, yes"
    assert sentence in capsys.readouterr().err


def test_a_table_whose_words_changed_is_another_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The classes of all rows are as they were.
    table, rows = folder / "people.csv", people(400, seed=0)
    before = table.read_text()
    try:
        save(table, [["yes!" if cell == "yes" else cell for cell in row] for row in rows])
        assert main(["evaluate", str(folder / "run")]) == 1
    finally:
        table.write_text(before)
    assert "people.csv is not the table that the run was trained on" in capsys.readouterr().err
