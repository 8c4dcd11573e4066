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
    """Run folders, finished or not. If not given, the page shows the results of the paper's experiments."""
    results: Path | None = None
    """The folder of those results. If not given: results."""
    out: Path = Path("report.html")
    """The output file. An existing file is overwritten only if it is a report."""
    title: str | None = None
    """The title of the page."""


def run(arguments: Sequence[str]) -> None:
    """Run ``jsa report``."""
    parsed = parse(ReportArguments, "report", arguments)
    if parsed.runs and parsed.results is not None:
        raise UsageError("a report shows either run folders or --results: leave out one of the two")

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
