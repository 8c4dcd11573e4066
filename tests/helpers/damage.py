"""Files that are damaged, and folders in which nothing may change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Damage = Callable[[Path], object]
"""What happens to a file."""


def flipped(place: int, bit: int = 4) -> Damage:
    """One bit of a byte turned, counted from the end for a negative place."""

    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[place] ^= 1 << bit
        path.write_bytes(content)

    return flip


def cut(share: float) -> Damage:
    """The beginning alone."""
    return lambda path: path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def holding(content: bytes | str) -> Damage:
    """Other content."""
    return lambda path: path.write_bytes(content if isinstance(content, bytes) else content.encode())


@contextmanager
def untouched(folder: Path) -> Iterator[None]:
    """Within it no file of the folder comes, goes, changes or is written again."""
    before = _files(folder)
    yield
    assert _files(folder) == before


def _files(folder: Path) -> dict[Path, tuple[int, bytes]]:
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}
