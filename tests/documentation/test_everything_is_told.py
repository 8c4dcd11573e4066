"""The pages tell of everything that there is."""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

import jsa
import jsa.chains
import jsa.data
import jsa.estimators
import jsa.kernels
import jsa.models
import jsa.testing
from jsa.data import names
from jsa.estimators.registry import ESTIMATORS

ROOT = Path(__file__).parents[2]
PUBLIC = (jsa, jsa.testing, jsa.estimators, jsa.models, jsa.chains, jsa.kernels, jsa.data)


def page(*names: str) -> str:
    return "".join((ROOT / name).read_text(encoding="utf-8") for name in names)


@pytest.mark.parametrize(
    ("written", "pages"),
    [
        ([f"`{name}`" for name in ESTIMATORS], ["docs/reference/methods.md"]),
        (names(), ["docs/reference/datasets.md"]),
    ],
    ids=["methods", "datasets"],
)
def test_everything_is_on_its_page(written: Sequence[str], pages: list[str]) -> None:
    assert [one for one in written if one not in page(*pages)] == []


def documented() -> list[str]:
    """The names that the reference asks Sphinx to document, in their order."""
    pages = sorted((ROOT / "docs" / "reference").glob("*.md"))
    told = "".join(page.read_text(encoding="utf-8") for page in pages)
    return re.findall(r"^\.\. auto(?:class|function|data|exception):: (\S+)$", told, re.MULTILINE)


def not_told_once(names: Sequence[str]) -> list[str]:
    """The public names that these names of the reference do not have, or have more than once."""
    told = [pydoc.locate(name) for name in names]
    # A name of jsa is also one of its package: once for both.
    public = {f"{module.__name__}.{name}": getattr(module, name) for module in PUBLIC for name in module.__all__}
    things = {name: thing for name, thing in public.items() if not inspect.ismodule(thing)}
    return [name for name, thing in things.items() if sum(one is thing for one in told) != 1]


def test_every_public_name_is_in_the_reference_once() -> None:
    assert [name for name in documented() if pydoc.locate(name) is None] == []
    assert not_told_once(documented()) == []
    assert not_told_once([name for name in documented() if name != "jsa.Batch"]) == ["jsa.Batch"]
    assert not_told_once([*documented(), "jsa.chains.ChainCache"]) == ["jsa.ChainCache", "jsa.chains.ChainCache"]


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name: str) -> None:
    """Sphinx checks those between the pages of the site."""
    if not (ROOT / name).is_file():
        pytest.skip("the page is part of the repository, not of the distribution")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", page(name)) if not link.startswith("https:")]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_page_of_the_methods_names_their_classes_and_what_these_cannot_do_without() -> None:
    expected = {}
    for name, kind in ESTIMATORS.items():
        taken = inspect.signature(kind).parameters.values()
        needed = [one.name for one in taken if one.default is one.empty and one.kind == one.POSITIONAL_OR_KEYWORD]
        expected[name] = f"{kind.__name__}({', '.join(needed)})"
    assert expected.pop("enumeration") == "Enumeration()"
    told = re.findall(r"^\| `([a-z-]+)` \| `([^`]+)` \|", page("docs/reference/methods.md"), re.MULTILINE)
    assert dict(told) == expected


def test_the_page_of_the_methods_tells_their_default_numbers_of_particles() -> None:
    told, column = {}, None
    for line in page("docs/reference/methods.md").splitlines():
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


def test_pages_that_the_program_names_exist() -> None:
    named = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"docs/[\w/-]+\.md", path.read_text("utf-8"))
    }
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []
