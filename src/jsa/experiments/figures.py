"""The figures of the paper, drawn from results alone: NLL on the way of each method, and the noise of its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jsa.errors import UsageError
from jsa.experiments.comparison import ComparedTable, compared_tables
from jsa.experiments.methods import Method
from jsa.experiments.results import Point, Result, VariancePoint, mean_and_deviation
from jsa.experiments.styles import STYLES
from jsa.experiments.tables import Column
from jsa.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours with a darker yellow, as in the style sheet of the report, and its marks.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#3FA0DC", "#1C1F24", "#B5A800")
MARKERS = ("o", "s", "^", "D", "v", "x")
MARKERS_A_LINE = 8
NATS_SHOWN = 12.0
"""How far above the lowest NLL an axis reaches at least; where all methods begin says little."""
USUAL = 0.7
"""The share of the methods, the best ones, whose last NLL is shown for sure; the others may be above the axis."""

FONT: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "pdf.fonttype": 42,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.1,
}


class Curve(NamedTuple):
    """A curve with the standard deviation over seeds, none for one seed."""

    x: list[float]
    mean: list[float]
    deviation: list[float | None]


def draw_figures(results: Sequence[Result], folder: Path) -> Iterator[Path]:
    """Draws every figure that there are results for, as PDF and as PNG, and gives their paths."""
    if not results:
        raise UsageError("there are no results to draw: make some with jsa reproduce table1, or give --results")
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(FONT):
        for compared in compared_tables(results):
            yield from _draw_table(compared, folder)


def _draw_table(compared: ComparedTable, folder: Path) -> Iterator[Path]:
    for column in compared.columns:
        methods = [
            (method, compared.cells[method.name, column.name].results)
            for method in compared.table.methods
            if compared.cells[method.name, column.name].results
        ]
        name = f"{column.name}-{compared.group}"
        if any(point.test_nll is not None for _, found in methods for run in found for point in run.curve):
            yield from _save(_likelihoods(compared, column, methods), folder / f"nll-{name}")
        if any(run.variance for _, found in methods for run in found):
            yield from _save(_variances(compared, methods), folder / f"variance-{name}")


def over_seeds(
    runs: Iterable[Result], x: Callable[[Any], float], y: Callable[[Any], float | None], variance: bool = False
) -> Curve:
    """The mean over runs of a figure at each epoch that they have in common."""
    points: Iterable[Point | VariancePoint] = (
        point for run in runs for point in (run.variance if variance else run.curve)
    )
    by_epoch = groupby(sorted(points, key=lambda point: point.epoch), key=lambda point: point.epoch)
    curve = Curve([], [], [])
    for _, found in by_epoch:
        at = [(x(point), value) for point in found if (value := y(point)) is not None]
        if at:
            mean, deviation = mean_and_deviation(value for _, value in at)
            curve.x.append(sum(place for place, _ in at) / len(at))
            curve.mean.append(mean)
            curve.deviation.append(deviation)
    return curve


def _likelihoods(compared: ComparedTable, column: Column, methods: Sequence[tuple[Method, Sequence[Result]]]) -> Figure:
    """Training and test NLL against epochs and against the time of the steps.

    A run has one thread, so that its processor time is the wall-clock time that it takes on a core of its own.
    """
    figure, axes = _panels()
    longest = max(run.processor_seconds for _, runs in methods for run in runs)
    scale, unit = (3600.0, "hours") if longest > 7200 else (60.0, "minutes") if longest > 120 else (1.0, "seconds")
    places: list[tuple[str, Callable[[Point], float]]] = [
        ("training epochs", attrgetter("epoch")),
        (f"training time on a free core [{unit}]", lambda point: point.processor_seconds / scale),
    ]
    values: list[float] = []
    last: list[float] = []
    for axis, (label, place) in zip(axes, places, strict=True):
        for method, runs in methods:
            for line, name in (("-", "train_nll"), ("--", "test_nll")):
                curve = over_seeds(runs, place, attrgetter(name))
                _draw(axis, curve, method, line, method.label if line == "-" else None)
                values += curve.mean
                last += curve.mean[-1:]
        axis.set(xlabel=label, ylabel="NLL [nats]")
    lowest, usual = min(values), sorted(last)[math.ceil(USUAL * len(last)) - 1]
    top = max(lowest + NATS_SHOWN, usual + 4)
    above = [method.label for method, runs in methods if all((run.curve[-1].test_nll or 0) > top for run in runs)]
    for axis in axes:
        axis.set_ylim(lowest - 1, top)
        if above:
            axis.text(1, 1, f"above: {', '.join(above)}", transform=axis.transAxes, ha="right", va="bottom", fontsize=6)
    _mark_switch(axes[0], methods)
    _mark_switches(axes[1], methods, places[1][1])
    note = "solid: training rows, dashed: test rows"
    name = column.label if len(compared.columns) > 1 else "Categorical"
    _finish(figure, axes, f"{name}, {_budget(compared, methods)}", note)
    return figure


def _variances(compared: ComparedTable, methods: Sequence[tuple[Method, Sequence[Result]]]) -> Figure:
    """The logarithm of the summed variance of the gradients for theta and phi against epochs."""
    figure, axes = _panels()
    for axis, name in zip(axes, ("theta", "phi"), strict=True):
        for method, runs in methods:
            curve = over_seeds(runs, attrgetter("epoch"), partial(_log_variance, name), variance=True)
            _draw(axis, curve, method, "-", method.label)
        axis.set(xlabel="training epochs", ylabel=rf"log variance of the gradient for $\{name}$")
        _mark_switch(axis, methods)
    _finish(
        figure,
        axes,
        f"Categorical, {_budget(compared, methods)}",
        "of chains that persist (stage II): given their states",
    )
    return figure


def _log_variance(name: str, point: VariancePoint) -> float | None:
    found = getattr(point, name)
    return None if found is None else found.log_variance


def _panels() -> tuple[Figure, Sequence[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 3.1), layout="constrained")
    return figure, figure.subplots(1, 2)


def _draw(axis: Axes, curve: Curve, method: Method, line: str, label: str | None) -> None:
    if not curve.x:
        return
    colour, marker = COLOURS[STYLES[method.name].colour], MARKERS[STYLES[method.name].mark]
    axis.plot(
        curve.x,
        curve.mean,
        line,
        color=colour,
        marker=marker,
        markersize=3.5,
        markevery=max(1, len(curve.x) // MARKERS_A_LINE),
        label=label,
        zorder=3 if method.name == "jsa" else 2,
    )
    if all(deviation is not None for deviation in curve.deviation):
        low, high = (
            [mean + sign * (spread or 0) for mean, spread in zip(curve.mean, curve.deviation, strict=True)]
            for sign in (-1, 1)
        )
        axis.fill_between(curve.x, low, high, color=colour, alpha=0.15, linewidth=0)


def _mark_switch(axis: Axes, methods: Sequence[tuple[Method, Sequence[Result]]]) -> None:
    """A line where the chains begin to persist: after the same epochs for all methods."""
    epoch = next((run.switch_epoch for _, runs in methods for run in runs if run.switch_epoch is not None), None)
    if epoch is not None:
        axis.axvline(epoch, color="0.6", linestyle=":", linewidth=0.8, label="stage II begins")


def _mark_switches(
    axis: Axes, methods: Sequence[tuple[Method, Sequence[Result]]], place: Callable[[Point], float]
) -> None:
    """A line for each method with chains, in its colour: in time, each begins stage II somewhere else."""
    for method, runs in methods:
        switched = [run for run in runs if run.switch_epoch is not None]
        last = [[place(point) for point in run.curve if point.stage == 1][-1:] for run in switched]
        found = [where for places in last for where in places]
        if found:
            colour = COLOURS[STYLES[method.name].colour]
            axis.axvline(sum(found) / len(found), color=colour, linestyle=":", linewidth=0.8)


def _finish(figure: Figure, axes: Sequence[Axes], title: str, note: str) -> None:
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="0.9", linewidth=0.5)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(6, len(labels)),
        frameon=False,
        title=note,
        title_fontsize=7,
        fontsize=7,
    )
    figure.suptitle(title, fontsize=9)


def _budget(compared: ComparedTable, methods: Sequence[tuple[Method, Sequence[Result]]]) -> str:
    budget, _, deviations = compared.group.partition("+")
    fewest, most = (which(len(runs) for _, runs in methods) for which in (min, max))
    seeds = f"{fewest} to {most}" if fewest < most else f"{most}"
    text = f"{budget} budget, {seeds} seed{'s' if most > 1 else ''}"
    return f"{text}, {deviations}" if deviations else text


def _save(figure: Figure, path: Path) -> Iterator[Path]:
    for kind in ("pdf", "png"):
        target = path.with_name(f"{path.name}.{kind}")
        # The date would make the same figure another file.
        metadata = {"CreationDate": None} if kind == "pdf" else None
        with replacing(target) as temporary:
            figure.savefig(temporary, format=kind, dpi=200, metadata=metadata)
        yield target
