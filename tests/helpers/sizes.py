"""Two sizes of one test: a short one for every day, and the full one, which `make test-slow` runs."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet


def sizes(short: object, full: object) -> list[ParameterSet]:
    """The values of a parameter: of the short test, and of the full one, which is marked slow."""
    return [pytest.param(short, id="short"), pytest.param(full, id="full", marks=pytest.mark.slow)]
