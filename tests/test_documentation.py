"""The pages tell of everything that there is."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import jsa
import jsa.chains
import jsa.data
import jsa.estimators
import jsa.kernels
import jsa.testing
from jsa.cli import COMMANDS
from jsa.data import names
from jsa.estimators.registry import ESTIMATORS

ROOT = Path(__file__).parents[1]


def page(*names: str) -> str:
    return "".join((ROOT / name).read_text(encoding="utf-8") for name in names)


@pytest.mark.parametrize(
    ("written", "pages"),
    [
        ([f"`{name}`" for name in ESTIMATORS], ["docs/estimators.md"]),
        ([f"jsa {command}" for command in COMMANDS], ["README.md", "docs/data.md", "docs/tables.md"]),
        (names(), ["docs/data.md"]),
    ],
    ids=["methods", "commands", "datasets"],
)
def test_everything_is_on_its_page(written: Sequence[str], pages: list[str]) -> None:
    assert [one for one in written if one not in page(*pages)] == []


def test_the_reference_is_that_of_this_version(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "build_reference.py"
    if not script.is_file():
        pytest.skip("the script is part of the repository, not of the distribution")
    # In a process of its own: in this one, the signatures are those of the run-time checks of shapes.
    subprocess.run([sys.executable, script, tmp_path / "reference.md"], check=True, capture_output=True)
    made = (tmp_path / "reference.md").read_text(encoding="utf-8")
    reference = page("docs/reference.md")
    assert reference == made, "make docs/reference.md anew: python scripts/build_reference.py"
    public = (jsa, jsa.testing, jsa.estimators, jsa.chains, jsa.kernels, jsa.data)
    listed = {name for module in public for name in module.__all__ if not inspect.ismodule(getattr(module, name))}
    assert [name for name in sorted(listed) if f"### {name}\n" not in reference] == []


def test_the_page_of_the_methods_names_their_classes_and_what_these_cannot_do_without() -> None:
    expected = {}
    for name, kind in ESTIMATORS.items():
        taken = inspect.signature(kind).parameters.values()
        needed = [one.name for one in taken if one.default is one.empty and one.kind == one.POSITIONAL_OR_KEYWORD]
        expected[name] = f"{kind.__name__}({', '.join(needed)})"
    assert expected.pop("enumeration") == "Enumeration()"
    told = re.findall(r"^\| `([a-z-]+)` \| `([^`]+)` \|", page("docs/estimators.md"), re.MULTILINE)
    assert dict(told) == expected


def test_the_page_of_the_methods_tells_their_default_numbers_of_particles() -> None:
    told, column = {}, None
    for line in page("docs/estimators.md").splitlines():
        # A bar that is escaped separates no cells.
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if "name" in cells:
            column = cells.index("default n")
        elif cells and column is not None and cells[0].startswith("`"):
            told[cells[0].strip("`")] = cells[column]
    taken = {name: inspect.signature(kind).parameters.get("particles") for name, kind in ESTIMATORS.items()}
    expected = {name: "none" if one is None else str(one.default) for name, one in taken.items()}
    assert expected.pop("enumeration") == "none"
    assert told == expected
