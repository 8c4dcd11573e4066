"""Where a page is written to: over an older page, but over nothing else."""

from __future__ import annotations

from pathlib import Path

from jsa.errors import UsageError
from jsa.files import check_destination, write_text
from jsa.report.page import GENERATOR, Page, render

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
