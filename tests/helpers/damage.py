"""Files that are damaged, and folders in which nothing may change."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from jsa.io.tensor_files import load_tensors, save_tensors

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


def kept(count: int) -> Damage:
    """As many first bytes alone, or as many fewer at the end for a negative number."""
    return lambda path: path.write_bytes(path.read_bytes()[:count])


def holding(content: bytes | str) -> Damage:
    """Other content."""
    return lambda path: path.write_bytes(content if isinstance(content, bytes) else content.encode())


def edited(change: Callable[[dict[str, Any]], object]) -> Damage:
    """A JSON record in which something is changed."""

    def edit(path: Path) -> None:
        record = json.loads(path.read_text(encoding="utf-8"))
        change(record)
        path.write_text(json.dumps(record), encoding="utf-8")

    return edit


def rewritten(
    change: Callable[[dict[str, Tensor]], dict[str, Tensor]] = lambda tensors: tensors, **notes: object
) -> Damage:
    """A tensor file with other tensors or notes and a checksum that is right."""

    def rewrite(path: Path) -> None:
        tensors, written = load_tensors(path)
        save_tensors(path, change(tensors), {**written, **notes})

    return rewrite


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Within it writes beyond this size fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def untouched(folder: Path) -> Iterator[None]:
    """Within it no file of the folder comes, goes, changes or is written again."""
    before = _files(folder)
    yield
    assert _files(folder) == before


def _files(folder: Path) -> dict[Path, tuple[int, bytes]]:
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}
