"""What several tests of the data need: the loaded datasets, once a session, and the files of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from jsa.data import Splits, load
from jsa.data.salakhutdinov import PACKED_NAME


@pytest.fixture(scope="session")
def threshold() -> Splits:
    return load("mnist-threshold")


@pytest.fixture(scope="session")
def static() -> Splits:
    return load("mnist-static")


@pytest.fixture(scope="session")
def salakhutdinov_folder() -> Path:
    """The folder of the packed file of Salakhutdinov and Murray, which is not part of the repository."""
    folder = Path(__file__).resolve().parents[3] / "shared" / "data"
    if not (folder / PACKED_NAME).is_file():
        pytest.skip(f"{PACKED_NAME} is not in ../shared/data: it may not be distributed with the project")
    return folder


@pytest.fixture(autouse=True)
def _no_named_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own data folder must not decide what a test sees."""
    monkeypatch.delenv("JSA_DATA_DIR", raising=False)
