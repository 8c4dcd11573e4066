"""The look of a method, the same in every figure and on the report's page."""

from __future__ import annotations

from jsa.report.styles import Style

# Where a colour comes twice in a table, the mark differs.
STYLES = {
    "jsa": Style(colour=1, mark=0),
    "jsa-rao-blackwell": Style(colour=3, mark=3),
    "hybrid": Style(colour=4, mark=1),
    "jsa-stale-weight": Style(colour=7, mark=0),
    "rws": Style(colour=0, mark=2),
    "vimco": Style(colour=2, mark=4),
    "rloo": Style(colour=5, mark=2),
    "arm": Style(colour=6, mark=3),
    "arsm": Style(colour=6, mark=3),
    "rebar": Style(colour=6, mark=5),
    "concrete": Style(colour=2, mark=1),
    "st-gumbel-softmax": Style(colour=0, mark=1),
    "nvil": Style(colour=7, mark=1),
    "reinforce": Style(colour=7, mark=5),
}
