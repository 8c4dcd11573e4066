"""The whole, self-contained page."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from jsa import __version__
from jsa.errors import UsageError
from jsa.evaluation.results import TRUSTED_BIAS
from jsa.io.atomic_files import check_destination, write_text
from jsa.io.json_records import to_record
from jsa.report.charts import chart_data, shown_sections
from jsa.report.entry import Entry, groups, sets_of_seeds
from jsa.report.formatting import mean_and_deviation
from jsa.report.settings import changed, flat, varying
from jsa.report.styles import COLORS, COLORS_ON_BLACK
from jsa.report.templates import asset, render
from jsa.runs.config import RunConfig

GENERATOR = "jsa report"
"""The name by which a page is recognized as a report."""

SCRIPTS = ("scales.js", "chart.js", "section.js", "reading.js")

FOLDED_FROM = 16
"""From this many runs on, the groups of settings are folded."""


@dataclass(frozen=True)
class Page:
    """The content of a page.

    Attributes:
        title: Its title.
        about: A sentence below it.
        entries: The runs.
        tables: Tables at the top of the page.
    """

    title: str
    about: str
    entries: Sequence[Entry]
    tables: Sequence[Markup] = ()


@dataclass(frozen=True)
class Part:
    """A section of a page."""

    name: str
    title: str
    content: Markup


def render_page(page: Page) -> str:
    """Render the page as HTML. The same runs give the same text."""
    style = render("page.css", colors=COLORS, colors_on_black=COLORS_ON_BLACK)
    # The scripts share one scope, and nothing in it is visible outside.
    script = Markup("(() => {\n" + '"use strict";\n' + "\n".join(map(asset, SCRIPTS)) + "})();\n")
    return render(
        "page.html",
        generator=f"{GENERATOR} {__version__}",
        # Nothing is ever loaded, and no other script runs, whatever a label contains.
        policy=f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'",
        title=page.title,
        style=style,
        about=page.about,
        parts=list(_parts(page)),
        version=f"jsa {__version__}",
        data=chart_data(page.entries),
        script=script,
    )


def _parts(page: Page) -> Iterator[Part]:
    entries, differing = page.entries, varying([entry.config for entry in page.entries])
    if page.tables:
        yield Part("tables", "Tables", Markup().join(page.tables))
    for section in shown_sections(entries):
        yield Part(section.name, section.title, render("charts.html", section=section))
    if any(entry.pictures for entry in entries):
        yield Part("pictures", "Pictures", render("pictures.html", groups=groups(entries)))
    notes = list(_notes(entries))
    yield Part("runs", "Runs", render("runs.html", entries=entries, notes=notes, trusted_bias=TRUSTED_BIAS))
    # The cells of the paper's tables already are means over seeds.
    if not page.tables and (sets := sets_of_seeds(entries)):
        yield Part("seeds", "Over seeds", render("seeds.html", sets=sets, mean_and_deviation=mean_and_deviation))
    if not page.tables and len(entries) > 1:
        yield Part(
            "differences", "What differs", render("differences.html", entries=entries, names=differing, flat=flat)
        )
    numbers = {id(entry): number for number, entry in enumerate(entries)}
    numbered = {group: [(numbers[id(entry)], entry) for entry in found] for group, found in groups(entries).items()}
    settings = render(
        "settings.html",
        groups=numbered,
        folded=len(entries) >= FOLDED_FROM,
        differing=differing,
        changed=changed,
        text=_text,
    )
    yield Part("settings", "Settings", settings)


def _notes(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield a note for each group whose test NLLs are from different numbers of samples."""
    for group, members in groups(entries).items():
        samples = sorted({entry.test.samples for entry in members if entry.test is not None})
        if len(samples) > 1:
            numbers = ", ".join(f"{number:,}" for number in samples[:-1]) + f" and {samples[-1]:,}"
            yield (
                f"{group}: the test NLLs are by {numbers} samples a row and cannot be compared, for fewer samples give "
                "a higher NLL."
            )


def _text(config: RunConfig) -> str:
    return json.dumps(to_record(config), indent=2)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


MARK = f'<meta name="generator" content="{GENERATOR} '.encode()


def refuse_other_files(path: Path) -> None:
    """Refuse the path of an existing file that is not a report, before any work is done."""
    check_destination(path, "--out")
    if path.exists() and not _is_report(path):
        raise UsageError(f"{path} exists already and is not a report of jsa: choose another --out, or move it away")


def write_page(page: Page, path: Path) -> None:
    """Write the page whole or not at all."""
    refuse_other_files(path)
    write_text(path, render_page(page))


def _is_report(path: Path) -> bool:
    # It is among the first lines, before any content from a run.
    with path.open("rb") as file:
        return MARK in file.read(512)
