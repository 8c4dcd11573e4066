"""The page as a whole: everything that it needs is inside it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from jsa import __version__
from jsa.errors import UsageError
from jsa.io.atomic_files import check_destination, write_text
from jsa.report.charts import chart_data, shown_sections
from jsa.report.entry import Entry, groups
from jsa.report.html import Markup, data_block, element, joined, void
from jsa.report.settings import configurations, differences_table
from jsa.report.tables import FigureTable, comparison_table, figure_table, seeds_table

GENERATOR = "jsa report"
"""By this name a page is known as one of ours."""

SCRIPTS = ("scales.js", "chart.js", "section.js", "reading.js")


@dataclass(frozen=True)
class Page:
    """What a page shows.

    Attributes:
        title: Its title.
        about: A sentence below it.
        entries: The runs.
        tables: Tables that stand above everything else.
    """

    title: str
    about: str
    entries: Sequence[Entry]
    tables: Sequence[FigureTable] = ()


def render(page: Page) -> str:
    """The page as HTML. The same runs give the same text."""
    style = _file("page.css")
    # The scripts share one scope, and nothing of them is visible outside.
    script = "(() => {\n" + '"use strict";\n' + "\n".join(map(_file, SCRIPTS)) + "})();\n"
    parts = _parts(page)
    return Template(_file("template.html")).substitute(
        generator=f"{GENERATOR} {__version__}",
        # Nothing is ever loaded, and no script runs but this one, whatever a label might hold.
        policy=f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'",
        title=element("title", page.title),
        style=Markup(style),
        heading=element("h1", page.title),
        about=element("p", page.about, class_="about"),
        navigation=joined([element("a", title, href=f"#{name}") for name, title, _ in parts]),
        sections=joined([element("section", element("h2", title), content, id=name) for name, title, content in parts]),
        version=f"jsa {__version__}",
        data=data_block("data", chart_data(page.entries)),
        script=Markup(script),
    )


def _parts(page: Page) -> list[tuple[str, str, Markup]]:
    """The sections by name, title and content."""
    parts = []
    if page.tables:
        parts.append(("tables", "Tables", joined([figure_table(table) for table in page.tables])))
    for section in shown_sections(page.entries):
        charts = element("div", class_="charts", data_section=section.name)
        parts.append((section.name, section.title, joined([element("p", section.about), charts])))
    if any(entry.pictures for entry in page.entries):
        parts.append(("pictures", "Pictures", _pictures(page.entries)))
    parts.append(("runs", "Runs", comparison_table(page.entries)))
    # Tables of figures have the mean over seeds in their cells.
    if not page.tables and (seeds := seeds_table(page.entries)) is not None:
        parts.append(("seeds", "Over seeds", seeds))
    if not page.tables and len(page.entries) > 1:
        parts.append(("differences", "What differs", differences_table(page.entries)))
    parts.append(("settings", "Settings", configurations(page.entries)))
    return parts


def _pictures(entries: Sequence[Entry]) -> Markup:
    parts = []
    for group, members in groups(entries).items():
        shown = [
            element(
                "figure",
                void("img", src=picture.address, alt=f"{picture.title} of {entry.label}", loading="lazy"),
                element("figcaption", f"{entry.label}: {picture.title}"),
            )
            for entry in members
            for picture in entry.pictures
        ]
        if shown:
            parts += [element("h3", group), element("div", *shown, class_="pictures")]
    return joined(parts)


def _file(name: str) -> str:
    return files("jsa.report").joinpath("page", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


MARK = f'<meta name="generator" content="{GENERATOR} '.encode()


def refuse_other_files(path: Path) -> None:
    """Refuses a path where something stands that is no report, before any work is done."""
    check_destination(path, "--out")
    if path.exists() and not _is_report(path):
        raise UsageError(f"{path} exists already and is no report of jsa: choose another --out, or move it away")


def write_page(page: Page, path: Path) -> None:
    """Writes the page, whole or not at all."""
    refuse_other_files(path)
    write_text(path, render(page))


def _is_report(path: Path) -> bool:
    # It stands among the first lines, before anything that comes from a run.
    with path.open("rb") as file:
        return MARK in file.read(512)
