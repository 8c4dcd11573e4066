"""The charts of a page as records for its script: the available figures and the axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from jsa.report.entry import Entry, Track, groups
from jsa.report.formatting import short
from jsa.report.styles import styles


@dataclass(frozen=True)
class Line:
    """One curve of a run: the names of its figure and, if it has one, of its interval."""

    figure: str
    label: str
    dashed: bool = False
    low: str | None = None
    high: str | None = None


@dataclass(frozen=True)
class View:
    """A choice of curves.

    Attributes:
        label: Its name.
        unit: The label of the vertical axis.
        lines: The curves of each run.
        falling: Whether its figures start high, so that only the region of low figures is of interest.
    """

    label: str
    unit: str
    lines: tuple[Line, ...]
    falling: bool = False


@dataclass(frozen=True)
class Axis:
    """A horizontal axis."""

    label: str
    figure: str
    kind: str = "plain"


@dataclass(frozen=True)
class Section:
    """Charts of one kind, one for each group of runs."""

    name: str
    title: str
    about: str
    track: str
    views: tuple[View, ...]
    axes: tuple[Axis, ...]


EPOCHS = Axis("epochs", "epoch")
AXES = (
    EPOCHS,
    Axis("processor time", "processor_seconds", "time"),
    Axis("wall-clock time", "training_seconds", "time"),
    Axis("decoder evaluations", "decoder_evaluations", "count"),
)
NATS = "nats a row"

SECTIONS = (
    Section(
        "curves",
        "Curves",
        "The time is that of the training steps, without validations; other work on the machine lengthens the "
        "wall-clock time, not the processor time. The validation NLL on the way is by the samples of a validation; in "
        "the table of runs, by more of them where the leading epochs were scored again. A vertical line marks the "
        "switch from stage I, where chains start anew at each visit, to stage II, where they persist.",
        "curve",
        (
            View(
                "train and test NLL",
                NATS,
                (Line("train_nll", "train"), Line("test_nll", "test", dashed=True)),
                falling=True,
            ),
            View("validation NLL", NATS, (Line("valid_nll", "validation"),), falling=True),
            View("negative bound", NATS, (Line("negative_bound", "mean over the epoch"),), falling=True),
        ),
        AXES,
    ),
    Section(
        "variance",
        "Variance of the gradients",
        "The logarithm of the variance, summed over all components, with an interval of 95 %; of chains that persist "
        "(stage II), given their states.",
        "variance",
        (
            View("generative model", "log variance", (Line("theta", "θ", low="theta_low", high="theta_high"),)),
            View("inference model", "log variance", (Line("phi", "φ", low="phi_low", high="phi_high"),)),
        ),
        (EPOCHS,),
    ),
    Section(
        "chains",
        "Health of the chains",
        "Of the methods with chains: the share of moves that were accepted, for how many passes through the data a "
        "chain stood still on average, and the share of chains that have not moved for a whole pass.",
        "curve",
        (
            View("acceptance", "share of moves", (Line("acceptance", "acceptance"),)),
            View("chain age", "passes", (Line("chain_age", "chain age"),)),
            View("frozen share", "share of chains", (Line("frozen_share", "frozen share"),)),
        ),
        AXES,
    ),
)


def shown_sections(entries: Sequence[Entry]) -> list[Section]:
    """Return the sections that have figures."""
    return [section for section in SECTIONS if any(_shown_views(section, entries))]


def chart_data(entries: Sequence[Entry]) -> dict[str, object]:
    """Return everything that the script needs."""
    members = groups(entries)
    chosen = {entry.series: entry.style for entry in entries if entry.style is not None}
    style = styles([[entry.series for entry in found] for found in members.values()], chosen)
    series = list(style)
    numbers = {id(entry): number for number, entry in enumerate(entries)}
    return {
        "series": [{"label": name, **asdict(found)} for name, found in style.items()],
        "runs": [
            {
                "label": entry.label,
                "series": series.index(entry.series),
                "switch": entry.switch_epoch,
                "tracks": {"curve": _columns(entry.curve), "variance": _columns(entry.variance)},
            }
            for entry in entries
        ],
        "charts": [{"title": name, "runs": [numbers[id(entry)] for entry in found]} for name, found in members.items()],
        "sections": [
            {**asdict(section), "views": [asdict(view) for view in _shown_views(section, entries)]}
            for section in shown_sections(entries)
        ],
    }


def _shown_views(section: Section, entries: Sequence[Entry]) -> list[View]:
    return [view for view in section.views if any(_has(entry, section.track, view) for entry in entries)]


def _has(entry: Entry, track: str, view: View) -> bool:
    figures: Track = entry.variance if track == "variance" else entry.curve
    return any(value is not None for line in view.lines for value in figures.get(line.figure, ()))


def _columns(track: Track) -> dict[str, list[float | None]]:
    return {name: short(values) for name, values in track.items() if any(value is not None for value in values)}
