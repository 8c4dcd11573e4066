"""The site in a real browser: no page is wider than its window, whether light or dark, and a reader finds things."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from helpers.browser import MISSING, PATIENCE, PROGRAM, browsing

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)

SIZES = ((400, "dark"), (1100, "light"), (1330, "dark"), (1800, "light"))
"""Widths of windows, between the places where the layout changes."""
TOO_WIDE = """() => [...document.querySelectorAll("article *")].filter((part) =>
    part.getBoundingClientRect().right > document.documentElement.clientWidth + 1 &&
    !part.parentElement.closest("pre, .table-wrapper, .drawing, div.math")
).map((part) => part.outerHTML.slice(0, 80))"""
"""The parts of a page that reach beyond its window, but for those in a box that scrolls by itself."""
COLORS = "(({color, backgroundColor}) => [color, backgroundColor])(getComputedStyle(document.body))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as opened:
        yield opened


def tab_of(browser: Browser, width: int, scheme: Literal["light", "dark"], complaints: list[str]) -> Page:
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab.set_default_timeout(PATIENCE)
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    return tab


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_no_page_is_wider_than_its_window(
    width: int, scheme: Literal["light", "dark"], browser: Browser, site: Path
) -> None:
    complaints: list[str] = []
    tab = tab_of(browser, width, scheme, complaints)
    pages = [page for page in sorted(site.rglob("*.html")) if page.name not in ("search.html", "genindex.html")]
    wide = []
    for page in pages:
        tab.goto(page.as_uri())
        wide += [f"{page.stem}: {part}" for part in tab.evaluate(TOO_WIDE)]
    assert len(pages) > 30
    assert (wide, complaints) == ([], [])
    # What is wide is noticed.
    tab.evaluate("document.querySelector('article h1').style.width = '5000px'")
    assert tab.evaluate(TOO_WIDE)
    tab.close()


def test_light_and_dark_differ_in_text_and_paper(browser: Browser, site: Path) -> None:
    colors = []
    for scheme in ("light", "dark"):
        tab = tab_of(browser, 1100, scheme, [])
        tab.goto((site / "index.html").as_uri())
        colors.append(tab.evaluate(COLORS))
        drawing = tab.evaluate("getComputedStyle(document.querySelector('.drawing svg')).color")
        assert drawing == colors[-1][0]
        tab.close()
    assert colors[0][0] != colors[1][0]
    assert colors[0][1] != colors[1][1]


def test_the_search_finds_a_page(browser: Browser, site: Path) -> None:
    tab = tab_of(browser, 1300, "light", [])
    tab.goto((site / "index.html").as_uri())
    tab.fill("input[name=q]", "frozen chains")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#search-results li")
    assert "Read the health of the chains" in tab.inner_text("#search-results")
    tab.close()
