"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

ABSENT = "–"  # noqa: RUF001  (a dash, for a figure that there is not)


def decimal(value: float | None, digits: int = 2) -> str:
    """A figure with some digits behind the point.

    >>> decimal(98.234), decimal(None), decimal(float("nan"))
    ('98.23', '–', '–')
    """
    return ABSENT if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def error(value: float, digits: int = 2) -> str:
    """A standard error; there is none of one row or of one sample.

    >>> error(0.314), error(float("nan"))
    ('±0.31', '–')
    """
    return f"±{decimal(value, digits)}" if math.isfinite(value) else ABSENT


def lasting(seconds: float | None) -> str:
    """A time in the unit that fits it.

    >>> lasting(4.21), lasting(300), lasting(9000)
    ('4.2 s', '5.0 min', '2.5 h')
    """
    if seconds is None:
        return ABSENT
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def count(number: float | None) -> str:
    """A large number in short.

    >>> count(950), count(59633), count(1_200_000_000)
    ('950', '59.6 thousand', '1.2 billion')
    """
    if number is None:
        return ABSENT
    for size, name in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if number >= size:
            return f"{number / size:.3g} {name}"
    return f"{number:.0f}"


def short(values: Sequence[float | None]) -> list[float | None]:
    """Figures for a chart: six significant digits, and none where a figure is not finite.

    >>> short([1.23456789, float("nan"), None])
    [1.23457, None, None]
    """
    return [None if value is None or not math.isfinite(value) else float(f"{value:.6g}") for value in values]
