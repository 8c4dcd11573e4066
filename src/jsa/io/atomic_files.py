"""Files that are written whole or not at all."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from jsa.errors import UsageError
from jsa.io.fault_injection import crash_point


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` and rename it to ``path`` when the block ends without an error.

    The content is flushed to disk before the rename, and the rename before the block ends: a crash leaves the old file
    or the new one, and after the block it is the new one.
    """
    crash_point(f"{path.name}-begin")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        crash_point(f"{path.name}-half", halve=temporary)
        crash_point(f"{path.name}-written")
        # mkstemp makes a private file, but saved files follow the user's umask like any other.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        flush(temporary)
        crash_point(f"{path.name}-flushed")
        temporary.replace(path)
        crash_point(f"{path.name}-renamed")
        flush(path.parent)
        crash_point(f"{path.name}-settled")
    finally:
        temporary.unlink(missing_ok=True)


_lasting = ContextVar("lasting", default=True)


@contextmanager
def short_lived() -> Iterator[None]:
    """Skip fsync inside this block, for a folder that is deleted after it."""
    before = _lasting.set(False)
    try:
        yield
    finally:
        _lasting.reset(before)


def flush(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on disk."""
    if not _lasting.get():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that a killed process left in a folder and its subfolders."""
    for leftover in folder.rglob(".*.part"):
        leftover.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a binary file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays to a .npz file, or as columns to a .csv file, whole or not at all.

    In a .csv file all arrays have the same number of rows; an array of two dimensions becomes columns numbered from 1.
    """
    import numpy as np

    # Words stay in a list: in an array, each would take the memory of the longest.
    made: dict[str, Any] = {
        name: values if isinstance(values, list) else np.asarray(values) for name, values in arrays.items()
    }
    with replacing(path) as temporary:
        if path.suffix == ".npz":
            with temporary.open("wb") as file:
                np.savez_compressed(file, **made)
            return
        columns = {label: values for name, array in made.items() for label, values in _columns(name, array)}
        with temporary.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))


def _columns(name: str, values: Any) -> list[tuple[str, list[Any]]]:
    if isinstance(values, list):
        return [(name, values)]
    if values.ndim == 1:
        return [(name, values.tolist())]
    return [(f"{name} {number}", column.tolist()) for number, column in enumerate(values.T, start=1)]


def make_folder(path: Path, option: str) -> None:
    """Make a folder if there is none, and refuse one that is not writable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise UsageError(f"the folder {path} is not writable ({error.strerror}): choose another {option}") from error


def check_destination(path: Path, option: str, **formats: str) -> None:
    """Refuse an output path that cannot be written, before any work is done.

    Args:
        path: The output file.
        option: The option that named it.
        formats: The kinds of file by suffix; any suffix is accepted if there are none.
    """
    if formats and path.suffix.removeprefix(".") not in formats:
        known = " or ".join(f".{ending} for {what}" for ending, what in formats.items())
        raise UsageError(f"{path} must end in {known}")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}: make it, or choose another {option}")
    if path.is_dir():
        raise UsageError(f"{path} is a folder: choose a file for {option}")
    if path.exists() and not path.is_file():
        # A file would take the place of a pipe or of a device.
        raise UsageError(f"{path} is not a file: choose another {option}")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"the folder {path.parent} is not writable: choose another {option}")
