"""Pictures that a page carries within itself."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

from jsa.errors import UsageError

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
