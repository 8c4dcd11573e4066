"""Runs that the tests of commands share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from helpers import block_tables
from helpers.own_tables import SIZES, save, spelled
from helpers.terminal import run_jsa


@pytest.fixture
def home(here: Path) -> Path:
    """The folder that the analyst works in, with the table ``d/t.csv``."""
    save("d/t.csv", spelled(200))
    return here


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of that table, begun in its folder by a relative path."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run_jsa("train --data", save("d/t.csv", spelled(200)), SIZES, "--out run")
    return folder / "run"


@pytest.fixture
def run(home: Path, trained: Path) -> Path:
    """The run as if it had been made by the analyst."""
    shutil.copytree(trained, home / "run")
    notes = home / "run" / "identity.json"
    notes.write_text(notes.read_text().replace(str(trained.parent), str(home)))
    return home / "run"


@pytest.fixture
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that a module made once, to work in."""
    monkeypatch.chdir(made)
    return made


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of blocks."""
    return save(tmp_path_factory.mktemp("table") / "mine.csv", block_tables.blocks(300, seed=0))


@pytest.fixture(scope="session")
def run_folder(table: Path) -> Path:
    """The run folder of a model that was trained on it; whoever changes something there works on a copy."""
    out = table.parent / "run"
    run_jsa("train --data", table, *block_tables.SIZES, "--out", out)
    return out
