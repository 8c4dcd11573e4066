"""All runs side by side: one line each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jsa.evaluation.score import TRUSTED_BIAS, Likelihood
from jsa.report.entry import Entry, groups
from jsa.report.markup import Markup, element, joined
from jsa.report.numbers import ABSENT, count, decimal, error, lasting

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
