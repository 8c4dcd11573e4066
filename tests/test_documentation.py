"""The pages tell of everything that there is."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jsa
import jsa.chains
import jsa.data
import jsa.estimators
import jsa.kernels
from jsa.cli import COMMANDS
from jsa.data import names
from jsa.estimators.registry import ESTIMATORS

ROOT = Path(__file__).parents[1]


def test_every_method_is_on_its_page() -> None:
    page = (ROOT / "docs" / "estimators.md").read_text(encoding="utf-8")
    assert [name for name in ESTIMATORS if f"`{name}`" not in page] == []


def test_every_command_is_in_the_readme() -> None:
    pages = [ROOT / "README.md", ROOT / "docs" / "data.md", ROOT / "docs" / "tables.md"]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert [command for command in COMMANDS if f"jsa {command}" not in text] == []


def test_every_dataset_is_on_its_page() -> None:
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    assert [name for name in names() if name not in page] == []


def test_the_reference_is_that_of_this_version(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "build_reference.py"
    if not script.is_file():
        pytest.skip("the script is part of the repository, not of the distribution")
    # In a process of its own: in this one, the signatures are those of the run-time checks of shapes.
    subprocess.run([sys.executable, script, tmp_path / "reference.md"], check=True, capture_output=True)
    made = (tmp_path / "reference.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert page == made, "make docs/reference.md anew: python scripts/build_reference.py"
    public = (jsa, jsa.estimators, jsa.chains, jsa.kernels, jsa.data)
    names = {name for module in public for name in module.__all__}
    assert [name for name in sorted(names) if f"### {name}\n" not in page] == []


def test_the_page_of_the_methods_names_their_classes_and_what_these_cannot_do_without() -> None:
    page = (ROOT / "docs" / "estimators.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `([a-z-]+)` \| `([^`]+)` \|", page, re.MULTILINE))
    expected = {}
    for name, kind in ESTIMATORS.items():
        taken = inspect.signature(kind).parameters.values()
        needed = [one.name for one in taken if one.default is one.empty and one.kind == one.POSITIONAL_OR_KEYWORD]
        expected[name] = f"{kind.__name__}({', '.join(needed)})"
    assert expected.pop("enumeration") == "Enumeration()"
    assert told == expected
