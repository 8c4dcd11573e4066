"""Our figures beside the paper's: the cells of a table, and the table as Markdown and HTML."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from markupsafe import Markup

from jsa.experiments.results import Result
from jsa.experiments.tables import METHODS, Cell, Published, Table, table
from jsa.io.atomic_files import write_text
from jsa.report.formatting import mean_and_deviation, plus_minus
from jsa.report.templates import render

PRINTED = 0.1
"""The last digit of the paper's figures."""


@dataclass(frozen=True)
class ComparedCell:
    """A cell: the test NLL over seeds, and the paper's.

    Attributes:
        results: Our results, one for each seed; empty if the cell was not run.
        published: The paper's figure; None if it has no such cell.
        seeds: The number of seeds of the fullest cell of the table.
        comparable: Whether our figure follows the paper's protocol.
    """

    results: Sequence[Result]
    published: Published | None
    seeds: int
    comparable: bool

    @cached_property
    def nll(self) -> tuple[float, float | None] | None:
        """The mean and standard deviation over seeds; None if the cell was not run."""
        return mean_and_deviation(result.test.nll for result in self.results) if self.results else None

    @property
    def ours(self) -> str | None:
        """Our figure, with a remark if it has fewer seeds than others or a run that was cut short."""
        if self.nll is None:
            return None
        seeds = len({result.job.seed for result in self.results})
        remarks = [f"{seeds} of {self.seeds} seeds"] if seeds < self.seeds else []
        remarks += dict.fromkeys(result.remark for result in self.results if result.remark)
        return plus_minus(*self.nll) + (f" [{'; '.join(remarks)}]" if remarks else "")

    @property
    def paper(self) -> str | None:
        """The paper's figure."""
        return None if self.published is None else plus_minus(self.published.nll, self.published.deviation, digits=1)

    @property
    def difference(self) -> float | None:
        """Our figure minus the paper's: negative if ours is better."""
        return None if self.nll is None or self.published is None else self.nll[0] - self.published.nll

    @property
    def verdict(self) -> str:
        """Better or worse if our figure differs from the paper's by more than the spread over seeds, else neither.

        A single seed has no spread; that of the paper is then used for both.
        """
        if not self.comparable or self.nll is None or self.published is None or self.difference is None:
            return "neither"
        of_the_paper, of_ours = self.published.deviation, self.nll[1]
        if of_the_paper is None and of_ours is None:
            return "neither"
        one = of_the_paper if of_the_paper is not None else of_ours or 0.0
        other = of_ours if of_ours is not None else one
        # The paper's figures are rounded.
        spread = max(PRINTED / 2, 2 * math.hypot(one, other))
        if abs(self.difference) <= spread:
            return "neither"
        return "better" if self.difference < 0 else "worse"

    def __str__(self) -> str:
        paper = f"paper {self.paper}" if self.paper else ""
        if self.ours is None:
            return f"not run ({paper})" if paper else ""
        return self.ours if self.difference is None else f"{self.ours} ({paper}, {self.difference:+.2f})"


@dataclass(frozen=True)
class Row:
    """A method with its cells."""

    name: str
    cells: Sequence[ComparedCell]

    @property
    def label(self) -> str:
        """The name of the method in a table."""
        return METHODS[self.name].label


@dataclass(frozen=True)
class Comparison:
    """A table of the paper with our figures, of one budget and with the same deviations.

    Attributes:
        table: The table.
        group: The budget and the deviations, as in the name of the results folder.
        found: The results, at least one, by the names of method and column.
    """

    table: Table
    group: str
    found: Mapping[tuple[str, str], Sequence[Result]]

    @property
    def results(self) -> list[Result]:
        """All results in it, in the order of the cells."""
        return [result for row in self.rows for cell in row.cells for result in cell.results]

    @property
    def _first(self) -> Result:
        return next(iter(self.found.values()))[0]

    @property
    def other_data(self) -> str | None:
        """The data of its figures, if it is not the paper's."""
        return self._first.job.deviations.data

    @property
    def columns(self) -> list[str]:
        """The labels of the columns."""
        return [column.label for column in self.table.columns.values()]

    @cached_property
    def rows(self) -> list[Row]:
        """Return the methods of the paper, then our own."""
        return [Row(name, [self._compared(cell) for cell in cells]) for name, cells in self.table.rows.items()]

    def _compared(self, cell: Cell) -> ComparedCell:
        # A figure on other data is not compared with the paper's.
        published = None if self.other_data else cell.published
        results = self.found.get((cell.method, cell.column), ())
        return ComparedCell(results, published, len(self.seeds), self.comparable)

    @cached_property
    def own_from(self) -> int:
        """The number of methods from the paper, which come before our own."""
        return sum(cells[0].published is not None for cells in self.table.rows.values())

    @property
    def subject(self) -> str:
        """The kind of its figures, and their data."""
        other = self.other_data
        return self.table.title.format(data=self.table.data if other is None else Path(other).name)

    @property
    def comparable(self) -> bool:
        """Whether its figures follow the paper's protocol."""
        return self.group == "paper"

    @property
    def marks(self) -> list[str]:
        """The budget of the figures, and their deviations from the paper's protocol."""
        budget, _, deviations = self.group.partition("+")
        marks = [f"{budget} budget, {self._first.config.epochs} epochs"]
        if budget == "short" and "epochs=" not in deviations:
            marks.append("a tenth of the paper's epochs")
        if deviations:
            marks.append(f"deviating: {deviations}")
        return marks if self.comparable else [*marks, "not comparable with the paper's figures"]

    @cached_property
    def seeds(self) -> list[int]:
        """The seeds of its results."""
        return sorted({result.job.seed for results in self.found.values() for result in results})

    @property
    def footnotes(self) -> list[str]:
        """The notes below the table."""
        validation = self._first.config.validation
        screening, samples = validation.validation_samples, validation.test_samples
        return [
            f"Test NLL in nats by {samples:,} samples at the best validation epoch. Validations every "
            f"{validation.validate_every} epochs and at the last one screen with {screening:,} samples; the leading "
            f"epochs, {validation.leading_epochs} at most, are scored again on all validation rows with {samples:,} "
            f"samples, and the best of them is tested. Seeds: {', '.join(map(str, self.seeds))}.",
            # The others are about the paper's figures.
            *(self.table.footnotes if self.other_data is None else ()),
        ]

    def markdown(self) -> str:
        """Render the table as Markdown, which is also readable on a terminal."""
        lines = [["method", *self.columns], *([row.label, *map(str, row.cells)] for row in self.rows)]
        # Our own methods are below a rule, which is a row of its own in Markdown.
        lines.insert(self.own_from + 1, ["*ours*", *("" for _ in self.columns)])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [
            "| " + " | ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)) + " |"
            for line in lines
        ]
        text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        notes = "\n".join(f"{number}. {note}" for number, note in enumerate(self.footnotes, 1))
        return f"## {self.subject} ({'; '.join(self.marks)})\n\n" + "\n".join(text) + f"\n\n{notes}\n"

    def html(self) -> Markup:
        """Render the table for the report."""
        return render("comparison.html", comparison=self)


def compare(results: Iterable[Result]) -> list[Comparison]:
    """Return the tables of these results, one for each budget and set of deviations."""
    groups: dict[tuple[str, str], dict[tuple[str, str], list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        job = result.job
        groups[job.table, job.group.name][job.method, job.column].append(result)
    return [Comparison(table(name), group, found) for (name, group), found in sorted(groups.items())]


def write_tables(results: Iterable[Result], folder: Path) -> list[Comparison]:
    """Write every table with results to the folder of the results."""
    comparisons = compare(results)
    for name in dict.fromkeys(one.table.name for one in comparisons):
        parts = [one.markdown() for one in comparisons if one.table.name == name]
        write_text(folder / f"{name}.md", "\n".join(parts))
    return comparisons
