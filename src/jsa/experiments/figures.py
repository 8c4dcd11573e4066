"""The figures of the paper, drawn from results alone: each method's NLL during training, and its gradient noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jsa.errors import UsageError
from jsa.experiments.comparison import Comparison, compare
from jsa.experiments.results import Point, Result, VariancePoint
from jsa.experiments.tables import METHODS
from jsa.io.atomic_files import replacing
from jsa.report.formatting import mean_and_deviation, time_unit
from jsa.report.styles import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MARKERS = ("o", "s", "^", "D", "v", "x")
"""The marks of the report by their names in matplotlib."""
MARKERS_A_LINE = 8
NATS_SHOWN = 12.0
"""The least extent of an axis above the lowest NLL. The first epochs are cut off, because they show little."""
USUAL = 0.7
"""The share of methods, from the best on, whose last NLL is always shown; the others may be above the axis."""

FONT: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "pdf.fonttype": 42,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.1,
}


class Curve(NamedTuple):
    """A curve with the standard deviation over seeds; None for one seed."""

    x: list[float]
    mean: list[float]
    deviation: list[float | None]


def draw_figures(results: Sequence[Result], folder: Path) -> Iterator[Path]:
    """Draw every figure with results as PDF and PNG, and yield their paths."""
    if not results:
        raise UsageError("there are no results to draw: make some with jsa reproduce table1, or give --results")
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(FONT):
        for comparison in compare(results):
            yield from _draw_table(comparison, folder)


Runs = Mapping[str, Sequence[Result]]
"""The runs of each method of a column, by its name; methods without runs are left out."""


def _draw_table(comparison: Comparison, folder: Path) -> Iterator[Path]:
    for place, (column, experiment) in enumerate(comparison.table.columns.items()):
        runs = {row.name: row.cells[place].results for row in comparison.rows if row.cells[place].results}
        # A table with one column needs no label for it.
        title = experiment.label if len(comparison.columns) > 1 else column.capitalize()
        heading = f"{title}, {_budget(comparison, runs)}"
        name = f"{column}-{comparison.group}"
        if any(point.test_nll is not None for found in runs.values() for run in found for point in run.curve):
            yield from _save(_likelihoods(heading, runs), folder / f"nll-{name}")
        if any(run.variance for found in runs.values() for run in found):
            yield from _save(_variances(heading, runs), folder / f"variance-{name}")


def over_seeds(
    runs: Iterable[Result], x: Callable[[Any], float], y: Callable[[Any], float | None], variance: bool = False
) -> Curve:
    """Return the mean over runs of a figure at each epoch that they share."""
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


def _likelihoods(heading: str, runs: Runs) -> Figure:
    """Draw the NLL of training rows, and below it that of test rows, against epochs and against step time.

    A run has one thread, so its processor time is its wall-clock time on an idle machine.
    """
    figure, panels = _panels(rows=2, height=5.2, same_scale=True)
    scale, unit = time_unit(max(run.processor_seconds for found in runs.values() for run in found))
    places: list[tuple[str, Callable[[Point], float]]] = [
        ("training epochs", attrgetter("epoch")),
        (f"processor time of the training [{unit}]", lambda point: point.processor_seconds / scale),
    ]
    drawn: list[dict[str, Curve]] = []
    for axes, (kind, figure_name) in zip(panels, (("training", "train_nll"), ("test", "test_nll")), strict=True):
        for axis, (_, place) in zip(axes, places, strict=True):
            curves = {name: over_seeds(found, place, attrgetter(figure_name)) for name, found in runs.items()}
            for name, curve in curves.items():
                _draw(axis, curve, name)
            drawn.append({name: curve for name, curve in curves.items() if curve.x})
        axes[0].set_ylabel(f"NLL of {kind} rows [nats]")
        _mark_switch(axes[0], runs)
        _mark_switches(axes[1], runs, places[1][1])
    for axis, (label, _) in zip(panels[-1], places, strict=True):
        axis.set_xlabel(label)
    top = _limit(figure, [curve for curves in drawn for curve in curves.values()])
    for axis, curves in zip(figure.axes, drawn, strict=True):
        above = ", ".join(METHODS[name].label for name, curve in curves.items() if curve.mean[-1] > top)
        if above:
            axis.text(1, 1, f"above: {above}", transform=axis.transAxes, ha="right", va="bottom", fontsize=6)
    _finish(figure, heading)
    return figure


def _limit(figure: Figure, curves: Sequence[Curve]) -> float:
    """Limit the NLL axes to the range in which most methods are visible, and return the upper limit."""
    lowest, last = min(min(curve.mean) for curve in curves), sorted(curve.mean[-1] for curve in curves)
    top = max(lowest + NATS_SHOWN, last[math.ceil(USUAL * len(last)) - 1] + 4)
    figure.axes[0].set_ylim(lowest - 1, top)
    return top


def _variances(heading: str, runs: Runs) -> Figure:
    """Draw the logarithm of the summed variance of the gradients for theta and phi against epochs."""
    figure, [axes] = _panels(rows=1, height=3.1, same_scale=False)
    for axis, name in zip(axes, ("theta", "phi"), strict=True):
        for method, found in runs.items():
            curve = over_seeds(found, attrgetter("epoch"), partial(_log_variance, name), variance=True)
            _draw(axis, curve, method)
        axis.set(xlabel="training epochs", ylabel=rf"log variance of the gradient for $\{name}$")
        _mark_switch(axis, runs)
    _finish(figure, heading, "of chains that persist (stage II): given their states")
    return figure


def _log_variance(name: str, point: VariancePoint) -> float | None:
    found = getattr(point, name)
    return None if found is None else found.log_variance


def _panels(rows: int, height: float, same_scale: bool) -> tuple[Figure, Sequence[Sequence[Axes]]]:
    """Return rows of two panels. Those of a column share x, and on the same scale all share y."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, height), layout="constrained")
    grid = figure.subplots(rows, 2, squeeze=False, sharex="col", sharey=same_scale)
    return figure, grid.tolist()


def _draw(axis: Axes, curve: Curve, name: str) -> None:
    if not curve.x:
        return
    method = METHODS[name]
    color, marker = COLORS[method.style.color], MARKERS[method.style.mark]
    axis.plot(
        curve.x,
        curve.mean,
        color=color,
        marker=marker,
        markersize=3.5,
        markevery=max(1, len(curve.x) // MARKERS_A_LINE),
        label=method.label,
        zorder=3 if name == "jsa" else 2,
    )
    if all(deviation is not None for deviation in curve.deviation):
        low, high = (
            [mean + sign * (spread or 0) for mean, spread in zip(curve.mean, curve.deviation, strict=True)]
            for sign in (-1, 1)
        )
        axis.fill_between(curve.x, low, high, color=color, alpha=0.15, linewidth=0)


def _mark_switch(axis: Axes, runs: Runs) -> None:
    """Draw a line at the switch to stage II, which is at the same epoch for all methods."""
    epoch = next((run.switch_epoch for found in runs.values() for run in found if run.switch_epoch is not None), None)
    if epoch is not None:
        axis.axvline(epoch, color="0.6", linestyle=":", linewidth=0.8, label="stage II begins")


def _mark_switches(axis: Axes, runs: Runs, place: Callable[[Point], float]) -> None:
    """Draw a line for each method with chains in its color, because each switches to stage II at its own time."""
    for name, found in runs.items():
        switched = [run for run in found if run.switch_epoch is not None]
        last = [[place(point) for point in run.curve if point.stage == 1][-1:] for run in switched]
        known = [where for places in last for where in places]
        if known:
            color = COLORS[METHODS[name].style.color]
            axis.axvline(sum(known) / len(known), color=color, linestyle=":", linewidth=0.8)


def _finish(figure: Figure, title: str, note: str | None = None) -> None:
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="0.9", linewidth=0.5)
    handles, labels = figure.axes[0].get_legend_handles_labels()
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


def _budget(comparison: Comparison, runs: Runs) -> str:
    budget, _, deviations = comparison.group.partition("+")
    fewest, most = (which(map(len, runs.values()), default=0) for which in (min, max))
    seeds = f"{fewest} to {most}" if fewest < most else f"{most}"
    text = f"{budget} budget, {seeds} seed{'s' if most > 1 else ''}"
    return f"{text}, {deviations}" if deviations else text


def _save(figure: Figure, path: Path) -> Iterator[Path]:
    for kind in ("pdf", "png"):
        target = path.with_name(f"{path.name}.{kind}")
        # A date would make the file differ at each call.
        metadata = {"CreationDate": None} if kind == "pdf" else None
        with replacing(target) as temporary:
            figure.savefig(temporary, format=kind, dpi=200, metadata=metadata)
        yield target
