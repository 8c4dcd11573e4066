"""Runs that differ in nothing but their seed: mean and standard deviation of what they came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean, stdev

from jsa.evaluation.score import Likelihood
from jsa.report.entry import Entry
from jsa.report.markup import Markup, element
from jsa.report.numbers import decimal

COLUMNS = ("runs", "group", "method", "seeds", "test NLL", "standard deviation", "of the mean")
TEXTS = COLUMNS[:4]


def over_seeds(entries: Sequence[Entry]) -> list[list[tuple[Entry, Likelihood]]]:
    """The tested runs of each set of settings, with their tests, where two or more seeds have the same settings.

    A seed that was run twice counts once.
    """
    found: dict[object, dict[int, tuple[Entry, Likelihood]]] = {}
    for entry in entries:
        if entry.test is not None:
            same = entry.group, entry.test.samples, repr(replace(entry.config, seed=0))
            found.setdefault(same, {}).setdefault(entry.config.seed, (entry, entry.test))
    return [list(by_seed.values()) for by_seed in found.values() if len(by_seed) > 1]


def seeds_table(entries: Sequence[Entry]) -> Markup | None:
    """A line for each of these sets; none where no two runs differ in the seed alone."""
    sets = over_seeds(entries)
    if not sets:
        return None
    head = (element("th", name, scope="col", class_="text" if name in TEXTS else None) for name in COLUMNS)
    rows = (element("tr", *_cells(runs)) for runs in sets)
    return element(
        "div", element("table", element("thead", element("tr", *head)), element("tbody", *rows)), class_="wide"
    )


def _cells(runs: Sequence[tuple[Entry, Likelihood]]) -> list[Markup]:
    first, _ = runs[0]
    figures = [test.nll for _, test in runs]
    spread = stdev(figures)
    texts = (
        first.group,
        first.config.estimator,
        ", ".join(str(seed) for seed in sorted(entry.config.seed for entry, _ in runs)),
    )
    return [
        element("th", ", ".join(entry.label for entry, _ in runs), scope="row"),
        *(element("td", text, class_="text") for text in texts),
        element("td", element("b", decimal(mean(figures)))),
        element("td", f"±{decimal(spread)}"),
        element("td", f"±{decimal(spread / len(runs) ** 0.5)}"),
    ]
