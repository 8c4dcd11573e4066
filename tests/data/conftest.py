"""What several tests of the data need: the loaded datasets, once a session, and the files of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from jsa.data import Splits, load


@pytest.fixture(scope="session")
def threshold() -> Splits:
    return load("mnist-threshold")


@pytest.fixture(scope="session")
def static() -> Splits:
    return load("mnist-static")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of files that are not part of the repository."""
    return Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(autouse=True)
def _no_named_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own data folder must not decide what a test sees."""
    monkeypatch.delenv("JSA_DATA_DIR", raising=False)
