"""How many particles a method has where nobody says how many: in the code and on its page."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from jsa.estimators.registry import ESTIMATORS

PAGE = Path(__file__).parents[2] / "docs" / "estimators.md"


def told() -> dict[str, str]:
    """The number in the row of each method, in the tables that have a column for it."""
    found, column = {}, None
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        # A bar that is escaped separates no cells.
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if "name" in cells:
            column = cells.index("default n")
        elif cells and column is not None and cells[0].startswith("`"):
            found[cells[0].strip("`")] = cells[column]
    return found


def test_the_page_tells_the_default_of_every_method() -> None:
    expected = {}
    for name, kind in ESTIMATORS.items():
        taken = inspect.signature(kind).parameters.get("particles")
        expected[name] = "none" if taken is None else str(taken.default)
    assert expected.pop("enumeration") == "none"
    assert told() == expected
