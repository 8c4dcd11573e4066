"""Runs that the tests of commands share."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from helpers import block_tables
from helpers.own_tables import SIZES, save, spelled
from jsa.cli import main


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the analyst works in, with the table ``d/t.csv``."""
    folder = tmp_path / "home"
    save(folder / "d" / "t.csv", spelled(200))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of that table, begun in its folder by a relative path."""
    folder = tmp_path_factory.mktemp("trained")
    save(folder / "d" / "t.csv", spelled(200))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", "--data", "d/t.csv", *SIZES, "--out", "run"]) == 0
    return folder / "run"


@pytest.fixture
def run(home: Path, trained: Path) -> Path:
    """The run as if it had been made by the analyst."""
    shutil.copytree(trained, home / "run")
    for notes in (home / "run").glob("data.json"):
        notes.write_text(notes.read_text().replace(str(trained.parent), str(home)))
    return home / "run"


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of blocks."""
    path = tmp_path_factory.mktemp("table") / "mine.csv"
    np.savetxt(path, block_tables.blocks(300, seed=0), fmt="%d", delimiter=",")
    return path


@pytest.fixture(scope="session")
def run_folder(table: Path) -> Path:
    """The run folder of a model that was trained on it; whoever changes something there works on a copy."""
    out = table.parent / "run"
    assert main(["train", "--data", str(table), *block_tables.SIZES, "--out", str(out)]) == 0
    return out
