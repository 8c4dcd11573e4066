"""Caches of both kinds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.killed_chains import SPACE
from jsa import ChainCache

ROWS = 12


@pytest.fixture(params=["in memory", "on disk"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "in memory" else tmp_path / "chains"


@pytest.fixture
def make_cache(folder: Path | None) -> Callable[[], ChainCache]:
    return lambda: ChainCache(SPACE, ROWS, folder)


@pytest.fixture
def cache(make_cache: Callable[[], ChainCache]) -> ChainCache:
    return make_cache()
