"""The templates in the folder ``page``. All text in them is escaped, unless it is markup already."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from jsa.report.formatting import count, decimal, error, lasting


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("jsa.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": count, "decimal": decimal, "error": error, "lasting": lasting}
    # Data for a script: ``tojson`` escapes <, so the data cannot end its own element.
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment


def render(name: str, **values: object) -> Markup:
    """Render a template."""
    return Markup(_environment().get_template(name).render(values))


def asset(name: str) -> str:
    """Return the text of a file that is included in the page unchanged."""
    return files("jsa.report").joinpath("page", name).read_text(encoding="utf-8")
