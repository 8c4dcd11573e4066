"""``jsa report``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from jsa.cli.arguments import parse
from jsa.errors import UsageError


@dataclass(frozen=True)
class ReportArguments:
    """Write one self-contained HTML page about results or runs: tables, curves, pictures, settings."""

    runs: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="[RUN ...]"), tyro.conf.Positional] = ()
    """Run folders, finished or not; by default the page is about the results of the paper's experiments."""
    results: Path | None = None
    """The folder of those results; results by default."""
    out: Path = Path("report.html")
    """The page. Only an older report is overwritten."""
    title: str | None = None
    """The title of the page."""


def run(arguments: Sequence[str]) -> None:
    """Make the page as the arguments say."""
    parsed = parse(ReportArguments, "report", arguments)
    if parsed.runs and parsed.results is not None:
        raise UsageError("a report is about run folders or about --results: leave out one of the two")

    from jsa.report.page import refuse_other_files, write_page

    refuse_other_files(parsed.out)
    if parsed.runs:
        from jsa.report.run_folders import run_page

        page = run_page(parsed.runs, parsed.title)
    else:
        from jsa.experiments.report import results_page

        page = results_page(parsed.results or Path("results"), parsed.title)
    write_page(page, parsed.out)
    print(f"{len(page.entries)} run{'s' if len(page.entries) > 1 else ''} in {parsed.out}")
