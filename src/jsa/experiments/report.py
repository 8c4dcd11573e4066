"""The page about published results: the tables beside the paper's, and every run that they stand on."""

from __future__ import annotations

import math
from pathlib import Path

from jsa.errors import UsageError
from jsa.experiments.comparison import Compared, ComparedTable, compared_tables, plus_minus
from jsa.experiments.figures import STYLES
from jsa.experiments.jobs import Places
from jsa.experiments.results import Point, Result, VariancePoint, read_results
from jsa.report.entry import CURVE_FIGURES, Entry, Track
from jsa.report.html import Picture, read_picture
from jsa.report.page import Page
from jsa.report.tables import Figure, FigureTable, Row

PRINTED = 0.1
"""The last digit of the paper's figures."""


def results_page(folder: Path, title: str | None = None) -> Page:
    """The page about all results of a folder."""
    results = read_results(folder)
    if not results:
        raise UsageError(
            f"there are no results in {folder}: name another folder with --results, or name run folders to report on"
        )
    tables = compared_tables(results)
    entries = [
        _entry(result, label, method.label, folder)
        for compared in tables
        for label, place in _columns(compared)
        for method, cells in compared.rows()
        for result in sorted(cells[place].results, key=lambda result: result.job.seed)
    ]
    about = (
        f"{len(entries)} run{'s' if len(entries) > 1 else ''} of the experiments of Ou & Song, Joint Stochastic "
        "Approximation and Its Application to Learning Discrete Latent Variable Models (UAI 2020): our figures beside "
        "the paper's."
    )
    return Page(title or "Joint stochastic approximation: results", about, entries, [_table(one) for one in tables])


def _columns(compared: ComparedTable) -> list[tuple[str, int]]:
    """The names of the charts, and the places of their columns in the table."""
    return [(_chart(compared, column.label), place) for place, column in enumerate(compared.columns)]


def _chart(compared: ComparedTable, column: str) -> str:
    name = compared.table.name.replace("table", "Table ")
    # A table of one column needs no name for it.
    chart = f"{name}, {column}" if len(compared.columns) > 1 else name
    return chart + ("" if compared.group == "paper" else f" ({compared.group})")


def _table(compared: ComparedTable) -> FigureTable:
    rows = tuple(
        Row(method.label, tuple(_figure(compared, cell) for cell in cells), method.own)
        for method, cells in compared.rows()
    )
    return FigureTable(
        title=f"{compared.table.name.replace('table', 'Table ')}. {compared.subject}",
        columns=tuple(column.label for column in compared.columns),
        rows=rows,
        marks=tuple(compared.marks),
        reference="paper",
        notes=tuple(compared.footnotes),
    )


def _figure(compared: ComparedTable, cell: Compared) -> Figure:
    published, difference = cell.published, cell.difference
    return Figure(
        ours=compared.ours(cell),
        reference=None if published is None else plus_minus(published.nll, published.deviation),
        difference=None if difference is None else f"{difference:+.2f}",
        better=_better(cell) if compared.comparable else None,
    )


def _better(cell: Compared) -> bool | None:
    """Whether our figure is better than the paper's by more than seeds differ; none where it is not, or nobody knows.

    One seed tells nothing of its spread: that of the paper then stands for both.
    """
    if cell.ours is None or cell.published is None or cell.difference is None:
        return None
    of_the_paper, of_ours = cell.published.deviation, cell.ours[1]
    if of_the_paper is None and of_ours is None:
        return None
    one = of_the_paper if of_the_paper is not None else of_ours or 0.0
    other = of_ours if of_ours is not None else one
    # The paper's figures are rounded.
    spread = max(PRINTED / 2, 2 * math.hypot(one, other))
    return cell.difference < 0 if abs(cell.difference) > spread else None


def _entry(result: Result, group: str, method: str, folder: Path) -> Entry:
    return Entry(
        label=f"{method}, seed {result.job.seed}",
        series=method,
        group=group,
        config=result.config,
        command=result.command,
        style=STYLES[result.job.method],
        curve=_curve(result.curve),
        variance=_variance(result.variance),
        switch_epoch=result.switch_epoch,
        best_epoch=result.best_epoch,
        valid_nll=result.valid.nll,
        valid_samples=result.valid.samples,
        test=result.test,
        training_seconds=result.training_seconds,
        processor_seconds=result.processor_seconds,
        decoder_evaluations=result.decoder_evaluations,
        commit=result.versions[-1].commit if result.versions else None,
        pictures=_pictures(Places(folder, folder).result(result.job).with_suffix(".png")),
    )


def _curve(points: tuple[Point, ...]) -> Track:
    return {
        **{name: [getattr(point, name) for point in points] for name in CURVE_FIGURES},
        "negative_bound": [None if point.objective is None else -point.objective for point in points],
    }


def _variance(points: tuple[VariancePoint, ...]) -> Track:
    track: dict[str, list[float | None]] = {"epoch": [point.epoch for point in points]}
    for name in ("theta", "phi"):
        found = [getattr(point, name) for point in points]
        for track_name, figure in ((name, "log_variance"), (f"{name}_low", "low"), (f"{name}_high", "high")):
            track[track_name] = [getattr(one, figure, None) for one in found]
    return track


def _pictures(path: Path) -> tuple[Picture, ...]:
    return (read_picture("samples", path),) if path.is_file() else ()
