"""One process at a time in a run folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jsa.errors import UsageError

NAME = "lock"


class InUseError(UsageError):
    """A run folder that another process works in."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder, which the system takes back from a process that dies.

    The file may be left behind by such a process, but then nobody holds its lock.
    """
    path = folder / NAME
    descriptor = _acquire(path)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        # Removed while it is still held: whoever opened it before finds that it is no longer the file of that name.
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _acquire(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(path, descriptor):
                return descriptor
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise InUseError(
                f"{path.parent} is in use by process {holder}: wait until it ends, or choose another folder"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
