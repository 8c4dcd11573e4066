"""The site is built without a warning, and what is drawn from the program is what the program says."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from helpers.terminal import Terminal
from jsa.cli import COMMANDS


def read(site: Path, page: str) -> str:
    return (site / f"{page}.html").read_text(encoding="utf-8")


def flags(text: str) -> set[str]:
    return set(re.findall(r"--[a-z][a-z-]*", text))


def test_no_page_asks_another_server_for_anything(site: Path) -> None:
    asked = {
        f"{page.name}: {link}"
        for page in site.rglob("*.html")
        for link in re.findall(
            r"<(?:script|img|link|iframe)\b[^>]*(?:src|href)=\"((?:https?:)?//[^\"]*)", page.read_text()
        )
    }
    assert asked == set()


def test_formulas_are_drawn(site: Path) -> None:
    page = read(site, "explanation/idea")
    assert page.count("<math") >= 3
    assert "\\nabla" not in page
    assert "<math" in read(site, "reference/estimators")


def test_drawings_are_part_of_their_page(site: Path) -> None:
    assert "<svg" in read(site, "index").partition('role="main"')[2]


def test_the_notebook_was_run(site: Path) -> None:
    page = read(site, "tutorials/notebook")
    outputs = page.split('class="cell_output')[1:]
    assert len(outputs) >= 6
    # Reconstructions, samples and curves.
    assert sum("<img" in output for output in outputs) >= 3
    assert "negative log-likelihood" in page


def test_the_search_knows_the_flags_and_the_names(site: Path) -> None:
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    for word in ("rloo", "multi_sample_bounds", "robbin"):
        assert word in index


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_of_the_commands_has_the_flags_of_their_help(command: str, site: Path, jsa: Terminal) -> None:
    page = read(site, "reference/commands")
    start = page.index(f'id="jsa-{command}"')
    section = page[start : page.index("</section>", start)]
    rows = re.findall(r"<tr.*?</tr>", section, re.DOTALL)
    told = set().union(*(flags(row.partition("</td>")[0]) for row in rows)) if rows else set()
    helped = jsa(command, "--help").out
    # A flag is indented by a blank or two; where a text goes on, it is indented by many.
    shown = set(re.findall(r"^ {1,2}(?:-\w, )?(--[a-z][a-z-]*)", helped, re.MULTILINE))
    assert told == shown - {"--help"}
    words = " ".join(html.unescape(re.sub(r"<[^>]*>", "", section)).split())
    text = " ".join(helped.partition("\n\n")[2].partition("\n\n")[0].split())
    assert text[:60] in words
