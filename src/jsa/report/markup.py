"""HTML in which all text is escaped, unless it is markup already."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence


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
