"""Which colour and which mark the curves of a series have, the same in all charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

COLOURS, MARKS = 8, 6
"""How many there are in the style sheet and in the script."""


@dataclass(frozen=True)
class Style:
    """A colour of Okabe and Ito and the shape of the marks, both as numbers."""

    colour: int
    mark: int


def styles(charts: Sequence[Collection[str]], chosen: Mapping[str, Style] | None = None) -> dict[str, Style]:
    """The style of every series, given the series of each chart and the styles that some of them have already.

    Each of the others takes a colour that the series beside it have least, and a mark that those of its colour have
    not. The series of most charts choose first.

    >>> styles([["a", "b"], ["b", "c"]])
    {'b': Style(colour=0, mark=0), 'a': Style(colour=1, mark=0), 'c': Style(colour=1, mark=0)}
    """
    appearances = Counter(name for chart in charts for name in dict.fromkeys(chart))
    found = {name: style for name, style in (chosen or {}).items() if name in appearances}
    for name, _ in sorted(appearances.items(), key=lambda item: -item[1]):
        if name in found:
            continue
        beside = {other for chart in charts if name in chart for other in chart if other in found}
        taken = Counter(found[other] for other in beside)
        colours = Counter(found[other].colour for other in beside)
        colour = min(range(COLOURS), key=lambda number: colours[number])
        choices = [Style(colour, mark) for mark in range(MARKS)]
        found[name] = min(choices, key=lambda style: taken[style])
    return found
