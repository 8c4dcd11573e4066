"""Signatures without what a reader of the page does not need, and stars that are no markup."""

from __future__ import annotations

import re

from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain

LONGEST_DEFAULT = 60


def shortened(
    app: Sphinx, what: str, name: str, thing: object, options: object, signature: str | None, returned: str | None
) -> tuple[str | None, str | None] | None:
    """Leave out default objects, which have no useful text, and those of classes without a constructor of their own."""
    if signature is None:
        return None
    if isinstance(thing, type) and not any("__init__" in vars(one) for one in thing.__mro__ if _is_ours(one)):
        return "", None
    return re.sub(r"=<[^>]*(>\S*)?>", "=...", signature), returned


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("jsa.")


def with_stars(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Keep the star of a shape such as (*shape, rows), which would begin an emphasis."""
    lines[:] = [re.sub(r"(?<=[( ])\*(?=\w+,)", r"\\*", line) for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    """Work on every signature and docstring."""
    for field in PythonDomain.directives["class"].doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    app.connect("autodoc-process-signature", shortened)
    app.connect("autodoc-process-docstring", with_stars)
    return {"parallel_read_safe": True}
