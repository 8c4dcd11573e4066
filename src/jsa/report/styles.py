"""The style of a series: a color and a mark, the same on the page and in figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#3fa0dc", "#1c1f24", "#b5a800")
"""The colors of Okabe and Ito, with yellow and sky blue darkened to be visible on white."""
COLORS_ON_BLACK = ("#3d9be0", "#ee7623", "#00b886", "#dd92bb", "#e69f00", "#8fd0f7", "#e6e8eb", "#f0e442")
MARKS = 6
"""The number of marks in the script of the page and in figures."""


@dataclass(frozen=True)
class Style:
    """A color and a mark, both as numbers."""

    color: int
    mark: int


def styles(charts: Sequence[Collection[str]], chosen: Mapping[str, Style] | None = None) -> dict[str, Style]:
    """Return the style of every series, given the series of each chart and the styles already chosen.

    Each remaining series gets the color that is used least beside it, and a mark that no series of that color has.
    Series that are in more charts choose first.

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
        color = min(range(len(COLORS)), key=lambda number: colors[number])
        choices = [Style(color, mark) for mark in range(MARKS)]
        found[name] = min(choices, key=lambda style: taken[style])
    return found
