"""Files that are either whole or not there."""

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
    """A temporary path beside ``path``, which takes its place when the block ends without an error.

    The content is flushed to the disk before the rename and the rename after it, so that a crash leaves the old file or
    the new one, and after the block it is the new one.
    """
    crash_point(f"{path.name}-begin")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        crash_point(f"{path.name}-half", halve=temporary)
        crash_point(f"{path.name}-written")
        # mkstemp makes a private file; what a user saves follows the user's umask like any other.
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
    """Within it nobody waits until files are on the disk: for a folder that is gone after the block."""
    before = _lasting.set(False)
    try:
        yield
    finally:
        _lasting.reset(before)


def flush(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    if not _lasting.get():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path) -> None:
    """Removes the temporary files that a killed process left in a folder and in those inside it."""
    for leftover in folder.rglob(".*.part"):
        leftover.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes a text file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes arrays, or what can be made one, to a .npz file, or as columns to a .csv file, whole or not at all.

    As columns, all must have a value for each line, and those of two dimensions become several, numbered from 1.
    """
    import numpy as np

    # Words stay in a list: as an array, each takes the memory of the longest.
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
    """Makes a folder where there is none, and refuses one that files cannot be written into."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise UsageError(
            f"nothing can be written into the folder {path} ({error.strerror}): choose another {option}"
        ) from error


def check_destination(path: Path, option: str, **formats: str) -> None:
    """Refuses a path where no file can be written, before any work is done.

    Args:
        path: Where a file is to be written.
        option: The option that named it.
        formats: What the file may be, by the endings of its name; anything where nothing is given.
    """
    if formats and path.suffix.removeprefix(".") not in formats:
        known = " or ".join(f".{ending} for {what}" for ending, what in formats.items())
        raise UsageError(f"{path} must end in {known}")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}: make it, or choose another {option}")
    if path.is_dir():
        raise UsageError(f"{path} is a folder: choose a file for {option}")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"nothing can be written into the folder {path.parent}: choose another {option}")
