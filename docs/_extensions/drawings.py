"""Drawings inside the page, so that they have its colors, light or dark.

```{drawing} pictures/idea.svg
The caption.
```
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Drawing(SphinxDirective):
    """An SVG file with a caption. Its own ``title`` says what it shows to those who do not see it."""

    required_arguments: ClassVar[int] = 1
    has_content: ClassVar[bool] = True

    def run(self) -> list[nodes.Node]:
        """Return the figure."""
        name, path = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(name)
        figure = nodes.container(classes=["drawing"])
        figure += nodes.raw("", Path(path).read_text(encoding="utf-8"), format="html")
        figure += self.parse_content_to_nodes()
        return [figure]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("drawing", Drawing)
    return {"parallel_read_safe": True}
