"""Tables of figures beside those that they are compared with."""

from __future__ import annotations

from dataclasses import dataclass

from jsa.report.markup import Markup, element, joined


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
