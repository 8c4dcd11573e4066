"""The pages tell of everything that there is."""

from __future__ import annotations

from pathlib import Path

from jsa.cli import COMMANDS
from jsa.data import names
from jsa.estimators import ESTIMATORS

ROOT = Path(__file__).parents[1]


def test_every_method_is_on_its_page() -> None:
    page = (ROOT / "docs" / "estimators.md").read_text(encoding="utf-8")
    assert [name for name in ESTIMATORS if f"`{name}`" not in page] == []


def test_every_command_is_in_the_readme() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8") + (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    assert [command for command in COMMANDS if f"jsa {command}" not in page] == []


def test_every_dataset_is_on_its_page() -> None:
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    assert [name for name in names() if name not in page] == []
