"""Tables of words, from training to the words that are drawn and filled in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.own_tables import read, write
from helpers.terminal import Terminal, run_jsa

NAMES = ["smokes", "color", "sport", "children"]
SIZES = "--model linear --latents 3 --epochs 60 --learning-rate 0.03 --threads 1"


def people(rows: int, seed: int) -> list[list[str]]:
    """Who smokes likes red and no sport; the others like any color, and sport."""
    generator = np.random.default_rng(seed)
    smokes = generator.random(rows) < 0.4
    colors = np.where(smokes, "red", generator.choice(["red", "green", "blue"], rows))
    children = generator.integers(0, 4, rows)
    columns = (np.where(smokes, "yes", "no"), colors, np.where(smokes, "no", "yes"), children.astype(str))
    return [list(row) for row in zip(*columns, strict=True)]


def save(path: Path | str, rows: list[list[str]], names: list[str] | None = NAMES) -> Path:
    return write(Path(path), "".join(",".join(row) + "\n" for row in [*([names] if names else []), *rows]))


def read_people(path: str) -> np.ndarray:
    names, cells = read(path)
    assert names == NAMES
    return cells


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run of a table of words, in ``run``."""
    folder = tmp_path_factory.mktemp("people")
    run_jsa("train --data", save(folder / "people.csv", people(400, seed=0)), SIZES, "--out", folder / "run")
    return folder


def test_a_run_knows_its_words(folder: Path) -> None:
    words = json.loads(Path("run/identity.json").read_text())["shape"]["words"]
    assert words == [["no", "yes"], ["blue", "green", "red"], ["no", "yes"], []]


def test_words_are_filled_in(folder: Path) -> None:
    holes, whole = people(100, seed=1), people(100, seed=1)
    for number, row in enumerate(holes):
        row[number % 3] = ""
    # Another order of rows, and no header: words say what they are.
    save("holes.csv", holes[::-1], names=None)
    run_jsa("impute run --data holes.csv --out filled.csv")
    given, found = np.array(holes), read_people("filled.csv")[::-1]
    assert np.array_equal(given[given != ""], found[given != ""])
    for column, right in ((0, 0.95), (1, 0.3), (2, 0.95)):
        assert (found == np.array(whole))[column::3, column].mean() > right


def test_words_are_drawn(folder: Path) -> None:
    run_jsa("sample run --count 2000 --out drawn.csv")
    drawn = read_people("drawn.csv")
    for column, words in enumerate([{"yes", "no"}, {"red", "green", "blue"}, {"yes", "no"}, {"0", "1", "2", "3"}]):
        assert set(drawn[:, column]) == words
    smokes = drawn[:, 0] == "yes"
    assert smokes.mean() == pytest.approx(0.4, abs=0.1)
    assert (drawn[smokes, 2] == "no").mean() > 0.9


def test_words_describe_and_are_scored(folder: Path, jsa: Terminal) -> None:
    assert "smokes = yes" in jsa("describe run --variables 1").out
    found = []
    for sport in ("no", "yes"):
        save("new.csv", [["yes", "red", sport, "1"]] * 2)
        run_jsa("evaluate run --data new.csv --out nll.npz")
        found.append(float(np.load("nll.npz")["nll"][0]))
    likely, unlikely = found
    assert likely + 2 < unlikely


def test_words_that_a_terminal_cannot_show_are_shown_for_all_that(tmp_path: Path) -> None:
    rows = [["ja" if cell == "yes" else cell.replace("green", "grün") for cell in row] for row in people(100, seed=0)]
    run = tmp_path / "run"
    run_jsa("train --data", save(tmp_path / "people.csv", rows), SIZES, "--epochs 1 --out", run)
    command = [sys.executable, "-m", "jsa", "describe", str(run), "--columns", "100"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "color = gr\\xfcn" in done.stdout


def test_other_words_are_refused(folder: Path, jsa: Terminal) -> None:
    save("other.csv", [["sometimes", "red", "no", "1"]] * 2)
    sentence = "holds 'sometimes', which is not one of the words of that column in the data of the run: no, yes"
    assert sentence in jsa.refuses("evaluate run --data other.csv", code=1)


def test_a_table_whose_words_changed_is_another_table(folder: Path, jsa: Terminal) -> None:
    # The classes of all rows are as they were.
    table, rows = folder / "people.csv", people(400, seed=0)
    before = table.read_text()
    try:
        save(table, [["yes!" if cell == "yes" else cell for cell in row] for row in rows])
        assert "people.csv is not the table that the run was trained on" in jsa.refuses("evaluate run", code=1)
    finally:
        table.write_text(before)
