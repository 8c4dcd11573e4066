"""A few mutated files of every kind; ``cd tests; python -m fuzz --files 5000`` opens thousands."""

from __future__ import annotations

import sys

import pytest

from fuzz.campaign import Figures, run, table
from fuzz.kinds import KINDS
from helpers.sizes import sizes


@pytest.fixture(scope="module", params=sizes(30, 600))
def files(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


@pytest.fixture(scope="module")
def figures(files: int) -> dict[str, Figures]:
    found = run(files)
    sys.stdout.write(f"\n{table(found)}\n")
    return found


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_mutated_files_load_or_end_in_a_clear_error(kind: str, files: int, figures: dict[str, Figures]) -> None:
    assert figures[kind].faults == []
    assert figures[kind].counts.total() == files
    assert figures[kind].counts["refused"] > 0
    assert figures[kind].longest_sentence < 1000
