"""The site, built once for all tests of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.pages import ROOT


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built anew as by `make docs`."""
    out = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--quiet", str(ROOT / "docs"), str(out / "html")],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return out / "html"
