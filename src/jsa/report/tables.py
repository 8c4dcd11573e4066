"""Tables of figures beside those that they are compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev

from jsa.evaluation.results import TRUSTED_BIAS, Likelihood
from jsa.report.entry import Entry, groups
from jsa.report.html import ABSENT, Markup, count, decimal, element, error, joined, lasting


@dataclass(frozen=True)
class Figure:
    """A cell: our figure, the one it is compared with, and ours less that, each as text and none where there is none.

    Attributes:
        better: Whether ours is the better one; none where the two cannot be compared.
    """

    ours: str | None = None
    reference: str | None = None
    difference: str | None = None
    better: bool | None = None


@dataclass(frozen=True)
class Row:
    """A row of a table; own rows stand below a rule."""

    label: str
    figures: tuple[Figure, ...]
    own: bool = False


@dataclass(frozen=True)
class FigureTable:
    """A table.

    Attributes:
        marks: What has to be known before reading it: how its figures were made.
        reference: Where the figures come from that ours are compared with.
        notes: Footnotes.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    marks: tuple[str, ...] = ()
    reference: str = "reference"
    notes: tuple[str, ...] = ()


def figure_table(table: FigureTable) -> Markup:
    """The table as HTML."""
    head = element("tr", element("th", "method", scope="col"), *(element("th", c, scope="col") for c in table.columns))
    body = []
    below = False
    for row in table.rows:
        if row.own and not below:
            body.append(element("tr", element("th", "ours", colspan=len(table.columns) + 1), class_="rule"))
        below = below or row.own
        cells = (_cell(figure, table.reference) for figure in row.figures)
        body.append(element("tr", element("th", row.label, scope="row"), *cells))
    marks = joined([element("span", mark, class_="mark") for mark in table.marks])
    notes = element("ol", *(element("li", note) for note in table.notes), class_="notes") if table.notes else ""
    return joined(
        [
            element("h3", table.title),
            element("p", marks, class_="badges"),
            element(
                "div",
                element("table", element("thead", head), element("tbody", *body), class_="figures"),
                class_="wide",
            ),
            notes,
        ]
    )


def _cell(figure: Figure, reference: str) -> Markup:
    if figure.ours is None and figure.reference is None:
        return element("td", class_="empty")
    ours = element("span", figure.ours or "not run", class_="ours" if figure.ours else "ours absent")
    beside = []
    if figure.reference is not None:
        beside.append(element("span", f"{reference} {figure.reference}"))
    if figure.difference is not None:
        kind = {True: "better", False: "worse", None: "neither"}[figure.better]
        beside.append(element("span", figure.difference, class_=f"difference {kind}"))
    return element("td", ours, element("span", *_spaced(beside), class_="beside"))


def _spaced(parts: list[Markup]) -> list[str]:
    return [text for part in parts for text in (" ", part)][1:]


COLUMNS = (
    *("run", "group", "test NLL", "over rows", "Monte Carlo", "upward bias", "test samples", "test rows"),
    *("validation NLL", "best epoch"),
    *("processor time", "wall-clock time", "decoder evaluations", "effective sample size", "seed", "commit"),
)
TEXTS = ("group", "commit")
BIAS = (
    "by how much the estimate is too high, as its samples show it; beyond a tenth of a nat they do not show all of it"
)


def comparison_table(entries: Sequence[Entry]) -> Markup:
    """The table; a click on a heading sorts by it. Above it stands where test NLLs are not to be compared."""
    # The heading is a button, so that it sorts by keyboard too.
    head = (
        element("th", element("button", column, type="button"), scope="col", class_="text" if column in TEXTS else None)
        for column in COLUMNS
    )
    rows = (element("tr", *_cells(entry, number)) for number, entry in enumerate(entries))
    table = element("table", element("thead", element("tr", *head)), element("tbody", *rows), class_="sortable")
    return joined([*_notes(entries), element("div", table, class_="wide")])


def _notes(entries: Sequence[Entry]) -> list[Markup]:
    """A sentence for each group whose test NLLs are by different numbers of samples."""
    notes = []
    for group, members in groups(entries).items():
        samples = sorted({entry.test.samples for entry in members if entry.test is not None})
        if len(samples) > 1:
            numbers = ", ".join(f"{number:,}" for number in samples[:-1]) + f" and {samples[-1]:,}"
            text = (
                f"{group}: the test NLLs are by {numbers} samples a row and cannot be compared, for fewer samples give "
                "a higher NLL."
            )
            notes.append(element("p", text, class_="mark"))
    return notes


def _cells(entry: Entry, number: int) -> list[Markup]:
    samples = entry.test.effective_sample_size if entry.test else None
    return [
        element("th", element("a", entry.label, href=f"#run-{number}"), scope="row"),
        element("td", entry.group, class_="text"),
        *_test_cells(entry.test, entry.unfinished),
        _number(decimal(entry.valid_nll), entry.valid_nll, _samples(entry.valid_samples)),
        _number(ABSENT if entry.best_epoch is None else str(entry.best_epoch), entry.best_epoch),
        _number(lasting(entry.processor_seconds), entry.processor_seconds),
        _number(lasting(entry.training_seconds), entry.training_seconds),
        _number(count(entry.decoder_evaluations), entry.decoder_evaluations),
        _number(decimal(samples, 1), samples),
        _number(str(entry.config.seed), entry.config.seed),
        element("td", *_commit(entry.commit), class_="text"),
    ]


def _samples(count: int | None) -> str | None:
    return None if count is None else f"{count:,} samples a row"


def _test_cells(test: Likelihood | None, unfinished: str | None) -> list[Markup]:
    if test is None:
        return [element("td", unfinished or "not tested", class_="text unfinished"), *(_number() for _ in range(5))]
    title = f"{test.samples:,} samples a row, {test.rows:,} rows"
    return [
        element("td", element("b", decimal(test.nll)), title=title, data_value=str(test.nll)),
        _number(error(test.row_error), test.row_error),
        _number(error(test.monte_carlo_error, 3), test.monte_carlo_error),
        _number(_bias(test.upward_bias), test.upward_bias, BIAS),
        _number(f"{test.samples:,}", test.samples),
        _number(f"{test.rows:,}", test.rows),
    ]


def _bias(bias: float) -> str:
    """By how much importance sampling is too high as the samples show it, which beyond a tenth is not all of it."""
    if not math.isfinite(bias):
        return ABSENT
    return decimal(bias) if bias < TRUSTED_BIAS else f"≥ {decimal(bias)}"


def _number(text: str = ABSENT, value: float | None = None, title: str | None = None) -> Markup:
    # What is no number has no place in the order, and comes last.
    place = None if value is None or not math.isfinite(value) else str(value)
    return element("td", text, title=title, data_value=place)


def _commit(commit: str | None) -> list[str]:
    """The beginning of a commit, and whether files differed from it."""
    if commit is None:
        return [ABSENT]
    name, _, changed = commit.partition("-")
    return [element("code", name[:10], title=commit), " with changes" if changed else ""]


SEED_COLUMNS = ("runs", "group", "method", "seeds", "test NLL", "standard deviation", "of the mean")
SEED_TEXTS = SEED_COLUMNS[:4]


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
    head = (element("th", name, scope="col", class_="text" if name in SEED_TEXTS else None) for name in SEED_COLUMNS)
    rows = (element("tr", *_seed_cells(runs)) for runs in sets)
    return element(
        "div", element("table", element("thead", element("tr", *head)), element("tbody", *rows)), class_="wide"
    )


def _seed_cells(runs: Sequence[tuple[Entry, Likelihood]]) -> list[Markup]:
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
