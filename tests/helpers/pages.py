"""The pages of the documentation and the blocks of code in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_TESTED = "# not tested: "
"""How a block begins that cannot run in a test; the reason follows, and the reader sees both."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        language: The word after the fence.
        text: The lines inside.
        line: The number of the first of them in the page.
    """

    language: str
    text: str
    line: int

    @property
    def runs(self) -> bool:
        """Whether it is a block of commands, or of Python that is no doctest, and not marked."""
        if self.language not in ("python", "sh", "console") or self.text.startswith(">>>"):
            return False
        return not self.text.startswith(NOT_TESTED)


def pages() -> list[Path]:
    """Every page, the README first."""
    found = (path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)
    return [path for path in (ROOT / "README.md", *sorted(found)) if path.is_file()]


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in their order; those with options, such as directives, have other languages."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^(`{3,})(\S*)[^\n]*\n(.*?)^\1$", text, re.MULTILINE | re.DOTALL)
    return [Block(match[2], match[3], text.count("\n", 0, match.start(3)) + 1) for match in found]


def name_of(page: Path) -> str:
    """The path of a page inside the repository."""
    return str(page.relative_to(ROOT))
