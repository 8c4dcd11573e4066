"""The look of a method in every figure: a colour that the colour-blind can tell apart, and a marker."""

from __future__ import annotations

from typing import NamedTuple


class Style(NamedTuple):
    """A colour and a marker of matplotlib."""

    colour: str
    marker: str


# Okabe and Ito's colours without the yellow, which is too light for lines; where one comes twice, the marker differs.
STYLES = {
    "jsa": Style("#D55E00", "o"),
    "jsa-rao-blackwell": Style("#CC79A7", "D"),
    "hybrid": Style("#E69F00", "s"),
    "jsa-stale-weight": Style("#999999", "o"),
    "rws": Style("#0072B2", "^"),
    "vimco": Style("#009E73", "v"),
    "rloo": Style("#56B4E9", "<"),
    "arm": Style("#000000", "P"),
    "arsm": Style("#000000", "P"),
    "rebar": Style("#000000", "x"),
    "concrete": Style("#009E73", "*"),
    "st-gumbel-softmax": Style("#CC79A7", "*"),
    "nvil": Style("#0072B2", "+"),
    "reinforce": Style("#999999", "."),
}
