"""Formulas as MathML, which browsers draw themselves: no script, no fonts, nothing to download."""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def markup(formula: str, as_block: bool = False) -> str:
    """Return a formula as MathML. docutils knows large brackets by the names of their sides only.

    >>> "]" in markup(r"E\\Big[f\\Big]")
    True
    """
    return tex2mathml(re.sub(r"\\Big(?![a-z])", r"\\Bigl", formula), as_block=as_block)


def visit_inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line of text."""
    writer.body.append(markup(node.astext()))
    raise nodes.SkipNode


def visit_block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own."""
    writer.body.append(f'<div class="math">{markup(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Make this the way formulas are written."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True}
