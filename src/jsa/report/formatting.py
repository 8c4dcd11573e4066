"""Numbers as text, for tables, figures and the page alike; and their mean over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

ABSENT = "–"  # noqa: RUF001  (a dash, for a figure that does not exist)


def decimal(value: float | None, digits: int = 2) -> str:
    """Format a number with fixed decimals.

    >>> decimal(98.234), decimal(None), decimal(float("nan"))
    ('98.23', '–', '–')
    """
    return ABSENT if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def error(value: float | None, digits: int = 2) -> str:
    """Format a standard error, which does not exist for one row or one sample.

    >>> error(0.314), error(float("nan"))
    ('±0.31', '–')
    """
    return ABSENT if value is None or not math.isfinite(value) else f"±{value:.{digits}f}"


def plus_minus(mean: float, deviation: float | None, digits: int = 2) -> str:
    """Format a figure with its deviation.

    >>> plus_minus(105.5, 0.1, digits=1), plus_minus(98.234, None)
    ('105.5±0.1', '98.23')
    """
    return decimal(mean, digits) + ("" if deviation is None else error(deviation, digits))


def time_unit(seconds: float) -> tuple[float, str]:
    """Return a suitable unit for a time: its length in seconds and its name.

    >>> time_unit(119), time_unit(121)
    ((1.0, 'seconds'), (60.0, 'minutes'))
    """
    if seconds < 120:
        return 1.0, "seconds"
    return (60.0, "minutes") if seconds < 7200 else (3600.0, "hours")


def lasting(seconds: float | None) -> str:
    """Format a time in a suitable unit.

    >>> lasting(4.21), lasting(300), lasting(9000)
    ('4.2 s', '5.0 min', '2.5 h')
    """
    if seconds is None:
        return ABSENT
    size, unit = time_unit(seconds)
    return f"{seconds / size:.1f} {({'seconds': 's', 'minutes': 'min', 'hours': 'h'})[unit]}"


def count(number: float | None) -> str:
    """Format a large number briefly.

    >>> count(950), count(59633), count(1_200_000_000)
    ('950', '59.6 thousand', '1.2 billion')
    """
    if number is None:
        return ABSENT
    for size, name in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if number >= size:
            return f"{number / size:.3g} {name}"
    return f"{number:.0f}"


def significant(value: float, digits: int) -> float:
    """Round to some significant digits.

    >>> significant(101.123456789, 7)
    101.1235
    """
    return float(f"{value:.{digits}g}")


def short(values: Sequence[float | None]) -> list[float | None]:
    """Round figures for a chart to six significant digits; those that are not finite become None.

    >>> short([1.23456789, float("nan"), None])
    [1.23457, None, None]
    """
    return [None if value is None or not math.isfinite(value) else significant(value, 6) for value in values]


def mean_and_deviation(values: Iterable[float]) -> tuple[float, float | None]:
    """Return the mean over seeds and, for two or more of them, the standard deviation.

    >>> mean_and_deviation([1.0, 3.0])
    (2.0, 1.4142135623730951)
    """
    known = list(values)
    mean = sum(known) / len(known)
    if len(known) < 2:
        return mean, None
    return mean, math.sqrt(sum((value - mean) ** 2 for value in known) / (len(known) - 1))
