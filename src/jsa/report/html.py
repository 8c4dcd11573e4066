"""HTML in which all text is escaped, unless it is markup already."""

from __future__ import annotations

import base64
import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jsa.errors import UsageError


class Markup(str):
    """Text that is HTML and not to be escaped."""

    __slots__ = ()


def element(name: str, *content: str, **attributes: str | int | bool | None) -> Markup:
    """An element with its content. Attributes that are none or false are left out.

    An underscore in the name of an attribute is a dash there; one at its end keeps it from being a word of Python.

    >>> element("p", "a < b ", element("b", "c"), class_="note", data_row=3, hidden=True)
    '<p class="note" data-row="3" hidden>a &lt; b <b>c</b></p>'
    """
    return Markup(f"<{name}{_attributes(attributes)}>{joined(content)}</{name}>")


def void(name: str, **attributes: str | int | bool | None) -> Markup:
    """An element that has no content.

    >>> void("img", alt='"quoted"')
    '<img alt="&quot;quoted&quot;">'
    """
    return Markup(f"<{name}{_attributes(attributes)}>")


def joined(content: Sequence[str]) -> Markup:
    """Texts and elements one after another."""
    return Markup("".join(part if isinstance(part, Markup) else html.escape(part) for part in content))


def data_block(identifier: str, record: object) -> Markup:
    """Data for the scripts of a page. It cannot end its own element, for it has no ``<``.

    >>> data_block("data", "</script>")
    '<script type="application/json" id="data">"\\\\u003c/script>"</script>'
    """
    text = json.dumps(record, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return Markup(f'<script type="application/json" id="{html.escape(identifier)}">{text}</script>')


def _attributes(attributes: dict[str, str | int | bool | None]) -> str:
    parts = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        written = name.rstrip("_").replace("_", "-")
        parts.append(f" {written}" if value is True else f' {written}="{html.escape(str(value))}"')
    return "".join(parts)


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


SIGNATURE = b"\x89PNG\r\n\x1a\n"
LARGEST = 8 << 20
"""Bytes of the largest picture that is taken into a page."""


@dataclass(frozen=True)
class Picture:
    """A picture: what it shows, and its content as an address that holds it."""

    title: str
    address: str


def read_picture(title: str, path: Path) -> Picture:
    """The picture in a PNG file, which may be anybody's."""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if not content.startswith(SIGNATURE):
        raise UsageError(f"{path} is no PNG picture: remove it or draw it again")
    if len(content) > LARGEST:
        raise UsageError(f"{path} has more than {LARGEST} bytes: remove it or draw a smaller one")
    return Picture(title, "data:image/png;base64," + base64.b64encode(content).decode("ascii"))
