"""Regular files, opened for reading: a pipe waits for a writer for ever, and a device may have no end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_KINDS = {
    stat.S_IFIFO: "a pipe is not a file: write what comes through it to one",
    stat.S_IFCHR: "a device is not a file",
    stat.S_IFBLK: "a device is not a file",
}


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, or raise the OSError that says what else it is. Only what was opened is looked at."""
    # Opening a pipe waits for a writer unless it is told not to.
    stream = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
    kind = stat.S_IFMT(os.fstat(stream.fileno()).st_mode)
    if kind == stat.S_IFREG:
        return stream
    stream.close()
    raise OSError(errno.EINVAL, _KINDS.get(kind, "it is not a file"), str(path))
