"""What the page shows of one run, wherever it was read from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from jsa.evaluation.results import Likelihood
from jsa.report.html import Picture
from jsa.runs.config import TrainConfig

COLORS, MARKS = 8, 6
"""How many there are in the style sheet and in the script."""


@dataclass(frozen=True)
class Style:
    """A color of Okabe and Ito and the shape of the marks, both as numbers."""

    color: int
    mark: int


def styles(charts: Sequence[Collection[str]], chosen: Mapping[str, Style] | None = None) -> dict[str, Style]:
    """The style of every series, given the series of each chart and the styles that some of them have already.

    Each of the others takes a color that the series beside it have least, and a mark that those of its color have
    not. The series of most charts choose first.

    >>> styles([["a", "b"], ["b", "c"]])
    {'b': Style(color=0, mark=0), 'a': Style(color=1, mark=0), 'c': Style(color=1, mark=0)}
    """
    appearances = Counter(name for chart in charts for name in dict.fromkeys(chart))
    found = {name: style for name, style in (chosen or {}).items() if name in appearances}
    for name, _ in sorted(appearances.items(), key=lambda item: -item[1]):
        if name in found:
            continue
        beside = {other for chart in charts if name in chart for other in chart if other in found}
        taken = Counter(found[other] for other in beside)
        colors = Counter(found[other].color for other in beside)
        color = min(range(COLORS), key=lambda number: colors[number])
        choices = [Style(color, mark) for mark in range(MARKS)]
        found[name] = min(choices, key=lambda style: taken[style])
    return found


Track = Mapping[str, Sequence[float | None]]
"""Figures along a run by name, all of one length; where there is no figure stands none."""

CURVE_FIGURES = (
    *("epoch", "training_seconds", "processor_seconds", "decoder_evaluations"),
    *("valid_nll", "train_nll", "test_nll"),
    *("acceptance", "chain_age", "frozen_share"),
)
"""What a curve has of a run at each epoch."""


@dataclass(frozen=True)
class Entry:
    """A run.

    Attributes:
        label: A name that no other run of its group has.
        series: What its curves are called in a legend; runs of the same method may share it.
        group: The chart that its curves stand in: the NLLs of one group can be compared.
        config: Its settings.
        command: How to run it again.
        style: The look of the series; where there is none, it takes one that is free.
        curve: Figures by epoch: the axes and the lines of :mod:`jsa.report.charts`.
        variance: The variance of the gradients at some epochs.
        switch_epoch: The last epoch of stage I, where there is a second stage.
        best_epoch, valid_nll, valid_samples, test: Where it is finished: the epoch that was tested, what it scored on
            the validation rows and by how many samples, and on the test rows.
        training_seconds, processor_seconds, decoder_evaluations: What the training took.
        commit: The commit of the program.
        pictures: Pictures of it.
        unfinished: How far it came, where it is not finished.
    """

    label: str
    series: str
    group: str
    config: TrainConfig
    command: str
    style: Style | None = None
    curve: Track = field(default_factory=dict)
    variance: Track = field(default_factory=dict)
    switch_epoch: int | None = None
    best_epoch: int | None = None
    valid_nll: float | None = None
    valid_samples: int | None = None
    test: Likelihood | None = None
    training_seconds: float | None = None
    processor_seconds: float | None = None
    decoder_evaluations: int | None = None
    commit: str | None = None
    pictures: tuple[Picture, ...] = ()
    unfinished: str | None = None


def groups(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """The runs by group, in the order in which the groups come."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.group, []).append(entry)
    return found
