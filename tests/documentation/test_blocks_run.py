"""The code on the pages runs, page by page, from the first block to the last, in an empty folder.

Examples with prompts are doctests, which pytest finds by itself; here are the others. A page about MNIST gets a few
hundred of its images, so that its commands are the ones that a reader types and yet end soon.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.pages import NOT_TESTED, ROOT, Block, blocks, name_of, pages
from helpers.terminal import Terminal
from jsa.data import Splits
from jsa.data.dataset import IndexedDataset
from jsa.data.loading import BUILDERS

ELSEWHERE = ("make", "pip")
"""Commands that are not run here; the first is tested below, the second by `make release`."""
PAGES = [page for page in pages() if any(block.runs for block in blocks(page))]
ROWS = 100
LIBRARIES = (sys.prefix, sys.base_prefix, str(ROOT))


@pytest.fixture
def few_images(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(rows: object) -> IndexedDataset:
        assert isinstance(rows, IndexedDataset)
        (values,) = rows.stored(slice(ROWS))
        labels = None if rows.labels is None else rows.labels[:ROWS]
        return IndexedDataset(values, rows.schema, labels=labels)

    for name in ("mnist-static", "mnist-threshold"):
        whole = BUILDERS[name]

        def few(data_dir: Path | None, seed: int, make: object = whole) -> Splits:
            assert callable(make)
            splits = make(data_dir, seed)
            return Splits(splits.name, first(splits.train), first(splits.valid), first(splits.test))

        monkeypatch.setitem(BUILDERS, name, few)


@pytest.fixture
def modules() -> Iterator[None]:
    """A page may write modules and import them; those of the next page have the same names."""
    before, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, "")
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if not str(getattr(sys.modules[name], "__file__", None) or "").startswith(LIBRARIES):
            del sys.modules[name]


def without_figures(text: str) -> str:
    """Figures differ in their last digits from machine to machine."""
    return re.sub(r"[0-9]+(\.[0-9]+)?", "#", text)


def commands(block: Block) -> list[tuple[list[str], list[str]]]:
    """The commands of a block as words, each with the lines that it shows below."""
    found: list[tuple[list[str], list[str]]] = []
    for line in block.text.replace("\\\n", " ").splitlines():
        if block.language == "sh" or line.startswith("$ "):
            words = shlex.split(line.removeprefix("$ "), comments=True)
            found += [(words, [])] if words else []
        else:
            found[-1][1].append(line)
    return found


def not_printed(block: Block, jsa: Terminal) -> list[str]:
    """Run the commands of a block, and return the lines that the page shows and they do not print."""
    missing = []
    for words, shown in commands(block):
        assert words[0] in ("jsa", *ELSEWHERE), f"{words[0]} of line {block.line} is no command of jsa"
        if words[0] == "jsa":
            printed = jsa(*map(shlex.quote, words[1:]))
            found = without_figures(printed.out + printed.err)
            missing += [line for line in shown if without_figures(line) not in found]
    return missing


@pytest.mark.parametrize("page", PAGES, ids=name_of)
@pytest.mark.usefixtures("few_images", "modules")
def test_the_blocks_of_a_page_run(page: Path, here: Path, jsa: Terminal) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    for block in filter(lambda block: block.runs, blocks(page)):
        if block.language == "python":
            # The lines keep their numbers in the page, for a traceback.
            exec(compile("\n" * (block.line - 1) + block.text, page, "exec"), names)
        else:
            assert not_printed(block, jsa) == []


def test_a_block_that_prints_something_else_is_found(here: Path, jsa: Terminal) -> None:
    assert not_printed(Block("console", "$ jsa --version\njsa 9.9.9.dev9\nnumpy 9.9\n", 1), jsa) == ["numpy 9.9"]


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_a_block_that_is_not_tested_says_why(page: Path) -> None:
    marks = [block.text.splitlines()[0] for block in blocks(page) if NOT_TESTED.strip(" :") in block.text]
    assert [mark for mark in marks if not re.fullmatch(rf"{NOT_TESTED}\w.*", mark)] == []


def test_targets_that_the_pages_name_exist() -> None:
    makefile = ROOT / "Makefile"
    if not makefile.is_file():
        pytest.skip("the Makefile is part of the repository, not of the distribution")
    named = {target for page in pages() for target in re.findall(r"`make ([a-z-]+)`|^make ([a-z-]+)", page.read_text())}
    targets = set(re.findall(r"^([a-z-]+):", makefile.read_text(encoding="utf-8"), re.MULTILINE))
    assert {one for pair in named for one in pair if one} <= targets
