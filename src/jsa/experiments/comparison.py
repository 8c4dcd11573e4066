"""Our figures beside the paper's: what stands in a cell of a table, and the table as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jsa.experiments.results import Result, mean_and_deviation
from jsa.experiments.tables import Column, Method, Published, Table, table
from jsa.io.atomic_files import write_text


@dataclass(frozen=True)
class Compared:
    """A cell: the test NLL over seeds, and the paper's.

    Attributes:
        results: Our results, one for each seed; empty where the cell was not run.
        published: What the paper reports, none where it has no such cell.
    """

    results: tuple[Result, ...]
    published: Published | None

    @property
    def ours(self) -> tuple[float, float | None] | None:
        """Mean and standard deviation over seeds, none where the cell was not run."""
        return mean_and_deviation(result.test.nll for result in self.results) if self.results else None

    @property
    def difference(self) -> float | None:
        """Ours less the paper's: below zero ours is better."""
        if self.ours is None or self.published is None:
            return None
        return self.ours[0] - self.published.nll

    @property
    def seeds(self) -> list[int]:
        """The seeds of its results."""
        return sorted({result.job.seed for result in self.results})


@dataclass(frozen=True)
class ComparedTable:
    """A table of the paper with our figures, of one budget and with the same deviations.

    Attributes:
        table: The table.
        group: The budget and the deviations, as the folder of the results is called.
        found: The results, one at least, by the names of method and column.
    """

    table: Table
    group: str
    found: Mapping[tuple[str, str], Sequence[Result]]

    @property
    def results(self) -> list[Result]:
        """All results in it, in the order of the cells."""
        return [result for cell in self.cells.values() for result in cell.results]

    @property
    def other_data(self) -> str | None:
        """What its figures are made of, where that is not the paper's data."""
        return next(iter(self.found.values()))[0].job.deviations.data

    @cached_property
    def cells(self) -> dict[tuple[str, str], Compared]:
        """What stands where, by the names of method and column."""
        places = {(cell.method.name, cell.column.name): cell for cell in self.table.cells()}
        # Figures of other data are no difference from the paper's.
        return {
            place: Compared(tuple(self.found.get(place, ())), None if self.other_data else cell.published)
            for place, cell in places.items()
        }

    @property
    def subject(self) -> str:
        """What its figures are, and of which data."""
        other = self.other_data
        return self.table.title.format(data=self.table.data if other is None else Path(other).name)

    @property
    def heading(self) -> str:
        """Its subject, and what the figures are worth."""
        return f"{self.subject} ({'; '.join(self.marks)})"

    @property
    def comparable(self) -> bool:
        """Whether its figures were made as the paper's were."""
        return self.group == "paper"

    @property
    def marks(self) -> list[str]:
        """What the figures are worth: the budget, and in what it is other than the paper's."""
        budget, _, deviations = self.group.partition("+")
        marks = [f"{budget} budget, {self.results[0].config.epochs} epochs"]
        if budget == "short" and "epochs=" not in deviations:
            marks.append("a tenth of the paper's epochs")
        if deviations:
            marks.append(f"deviating: {deviations}")
        return marks if self.comparable else [*marks, "not comparable with the paper's figures"]

    @property
    def seeds(self) -> list[int]:
        """The seeds of its results."""
        return sorted({seed for cell in self.cells.values() for seed in cell.seeds})

    def ours(self, cell: Compared) -> str | None:
        """Our figure in a cell, which says so where it stands on fewer seeds than others; none where it was not run."""
        if cell.ours is None:
            return None
        seeds, most = len(cell.seeds), len(self.seeds)
        return plus_minus(*cell.ours, digits=2) + (f" [{seeds} of {most} seeds]" if seeds < most else "")

    def text(self, cell: Compared) -> str:
        """A cell: our figure, the paper's and the difference."""
        published, ours = cell.published, self.ours(cell)
        paper = "" if published is None else f"paper {plus_minus(published.nll, published.deviation)}"
        if ours is None:
            return f"not run ({paper})" if paper else ""
        return ours if cell.difference is None else f"{ours} ({paper}, {cell.difference:+.2f})"

    @property
    def footnotes(self) -> list[str]:
        """What has to be known to read it."""
        validation = self.results[0].config.validation
        screening, samples = validation.validation_samples, validation.test_samples
        return [
            f"Test NLL in nats by {samples:,} samples at the best validation epoch. Validations every "
            f"{validation.validate_every} epochs and at the last one screen with {screening:,} samples; the leading "
            f"epochs, {validation.leading_epochs} at most, are scored again on all validation rows with {samples:,} "
            f"samples, and the best of them is tested. Seeds: {', '.join(map(str, self.seeds))}.",
            # The others are about the paper's figures.
            *(self.table.footnotes if self.other_data is None else ()),
        ]

    def rows(self) -> Iterator[tuple[Method, list[Compared]]]:
        """The methods with their cells; those of the paper come first."""
        for method in self.table.methods:
            yield method, [self.cells[method.name, column.name] for column in self.columns]

    @property
    def columns(self) -> Sequence[Column]:
        """The columns."""
        return self.table.columns


def compared_tables(results: Iterable[Result]) -> list[ComparedTable]:
    """The tables that results belong to, one for each budget and set of deviations."""
    groups: dict[tuple[str, str], dict[tuple[str, str], list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        job = result.job
        groups[job.table, job.group.name][job.method, job.column].append(result)
    return [ComparedTable(table(name), group, found) for (name, group), found in sorted(groups.items())]


def markdown(compared: ComparedTable) -> str:
    """The table as Markdown, which is also readable on a terminal."""
    lines = [["method", *(column.label for column in compared.columns)]]
    rule_at = 0
    for method, cells in compared.rows():
        rule_at = rule_at if method.own else len(lines) + 1
        lines.append([method.label, *map(compared.text, cells)])
    # Our own methods stand below a rule, which in Markdown is a row of its own.
    lines.insert(rule_at, ["*ours*", *("" for _ in compared.columns)])
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    text = [
        "| " + " | ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    notes = "\n".join(f"{number}. {note}" for number, note in enumerate(compared.footnotes, 1))
    return f"## {compared.heading}\n\n" + "\n".join(text) + f"\n\n{notes}\n"


def write_tables(results: Iterable[Result], folder: Path) -> list[ComparedTable]:
    """Writes every table that there are results for into the folder of the results."""
    tables = compared_tables(results)
    for name in dict.fromkeys(compared.table.name for compared in tables):
        parts = [markdown(compared) for compared in tables if compared.table.name == name]
        write_text(folder / f"{name}.md", "\n".join(parts))
    return tables


def plus_minus(mean: float, deviation: float | None, digits: int = 1) -> str:
    """A figure with its deviation.

    >>> plus_minus(105.5, 0.1), plus_minus(98.234, None, digits=2)
    ('105.5±0.1', '98.23')
    """
    spread = "" if deviation is None else f"±{deviation:.{digits}f}"
    return f"{mean:.{digits}f}{spread}"
