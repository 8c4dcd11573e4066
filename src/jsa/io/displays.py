"""Short displays of results for notebooks, as HTML that takes colors and background from the page."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from html import escape


def figures_table(figures: Mapping[str, object], note: str | None = None) -> str:
    """Return figures by their names, a line each, with a sentence below them if there is one.

    >>> figures_table({"rows": 100}, "a < b")
    '<table><tr><th style="text-align:left">rows</th><td style="...">100</td></tr></table><p>a &lt; b</p>'
    """
    # A path has no spaces at which a narrow page could break it.
    left = "text-align:left"
    lines = (
        f'<tr><th style="{left}">{escape(name)}</th>'
        f'<td style="{left};overflow-wrap:anywhere">{escape(str(value))}</td></tr>'
        for name, value in figures.items()
    )
    return f"<table>{''.join(lines)}</table>" + ("" if note is None else f"<p>{escape(note)}</p>")


def picture(png: bytes, text: str) -> str:
    """Return a PNG picture with a text below it, which also stands for the picture where none can be seen."""
    return f"<div>{image(png, text)}<div>{escape(text)}</div></div>"


def image(png: bytes, text: str) -> str:
    """Return a PNG picture alone."""
    data = base64.b64encode(png).decode("ascii")
    return f'<img src="data:image/png;base64,{data}" alt="{escape(text)}" style="max-width:100%">'


def image_table(lines: Iterable[tuple[bytes, str]]) -> str:
    """Return PNG pictures below each other, each beside its text."""
    return (
        "<table>"
        + "".join(
            f'<tr><td style="text-align:left">{escape(text)}</td><td>{image(png, text)}</td></tr>'
            for png, text in lines
        )
        + "</table>"
    )


def preformatted(text: str) -> str:
    """Return text in lines and columns.

    >>> preformatted("a < b")
    '<pre style="background:none;color:inherit">a &lt; b</pre>'
    """
    return f'<pre style="background:none;color:inherit">{escape(text)}</pre>'
