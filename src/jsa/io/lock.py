"""One process at a time in a run folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from jsa.errors import UsageError

NAME = "lock"


class InUseError(UsageError):
    """A run folder that another process works in."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. The system releases it when the process dies, even if the file is left behind."""
    path = folder / NAME
    # A short wait, because whoever held the lock may be removing its file at this moment.
    lock = FileLock(path, timeout=0.1, poll_interval=0.02, mode=0o666, on_acquired=_write_holder)
    try:
        lock.acquire()
    except Timeout:
        raise InUseError(
            f"{folder} is in use by process {_holder(path)}: wait until it ends, or choose another folder"
        ) from None
    except OSError:
        # The disk is full, or no file may have any content.
        path.unlink(missing_ok=True)
        raise
    try:
        yield
    finally:
        # Removed while the lock is held: a process that has opened the file finds that it is no longer in the folder.
        path.unlink(missing_ok=True)
        lock.release()


def _write_holder(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def _holder(path: Path) -> str:
    try:
        return path.read_bytes()[:32].decode("ascii", "replace").strip() or "unknown"
    except FileNotFoundError:
        return "unknown"
