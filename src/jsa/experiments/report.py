"""The page about published results: the tables beside the paper's, and every run behind them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jsa.errors import UsageError
from jsa.experiments.comparison import Comparison, compare
from jsa.experiments.jobs import Places
from jsa.experiments.results import Point, Result, VariancePoint, read_results
from jsa.experiments.tables import METHODS
from jsa.report.entry import CURVE_FIGURES, Entry, Track, read_picture
from jsa.report.page import Page


def results_page(folder: Path, title: str | None = None) -> Page:
    """Return the page about all results of a folder."""
    results = read_results(folder)
    if not results:
        raise UsageError(
            f"there are no results in {folder}: name another folder with --results, or name run folders to report on"
        )
    comparisons = compare(results)
    entries = [
        _entry(result, _chart(comparison, label), folder)
        for comparison in comparisons
        for place, label in enumerate(comparison.columns)
        for row in comparison.rows
        for result in sorted(row.cells[place].results, key=lambda result: result.job.seed)
    ]
    about = (
        f"{len(entries)} run{'s' if len(entries) > 1 else ''} of the experiments of Ou & Song, Joint Stochastic "
        "Approximation and Its Application to Learning Discrete Latent Variable Models (UAI 2020): our figures beside "
        "the paper's."
    )
    tables = [comparison.html() for comparison in comparisons]
    return Page(title or "Joint stochastic approximation: results", about, entries, tables)


def _chart(comparison: Comparison, column: str) -> str:
    name = comparison.table.name.replace("table", "Table ")
    # A table of one column needs no name for it.
    chart = f"{name}, {column}" if len(comparison.columns) > 1 else name
    return chart if comparison.comparable else f"{chart} ({comparison.group})"


def _entry(result: Result, group: str, folder: Path) -> Entry:
    method, path = METHODS[result.job.method], Places(folder, folder).result(result.job).with_suffix(".png")
    return Entry(
        label=f"{method.label}, seed {result.job.seed}",
        series=method.label,
        group=group,
        config=result.config,
        command=result.command,
        style=method.style,
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
        pictures=(read_picture("samples", path),) if path.is_file() else (),
        remark=result.remark,
    )


def _curve(points: Sequence[Point]) -> Track:
    return {
        **{name: [getattr(point, name) for point in points] for name in CURVE_FIGURES},
        "negative_bound": [None if point.objective is None else -point.objective for point in points],
    }


def _variance(points: Sequence[VariancePoint]) -> Track:
    track: dict[str, list[float | None]] = {"epoch": [point.epoch for point in points]}
    for name in ("theta", "phi"):
        found = [getattr(point, name) for point in points]
        for track_name, figure in ((name, "log_variance"), (f"{name}_low", "low"), (f"{name}_high", "high")):
            track[track_name] = [getattr(one, figure, None) for one in found]
    return track
