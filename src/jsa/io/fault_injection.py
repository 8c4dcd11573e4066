"""Places at which a test kills the process, as a power cut or an out-of-memory killer would.

They do nothing unless the environment variable ``JSA_CRASH_AT`` was set to ``name:count`` when jsa was imported: the
process then ends with SIGKILL when it passes the place of that name for the count-th time.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

VARIABLE = "JSA_CRASH_AT"


class _Target:
    """The place to die at, and how often it is still to be passed."""

    def __init__(self, text: str) -> None:
        self.name, _, count = text.rpartition(":")
        self.left = int(count or 0)


_target = _Target(os.environ.get(VARIABLE, ""))


def crash_point(name: str, halve: Path | None = None) -> None:
    """Ends the process here if a test asked for that.

    Args:
        name: The name of the place.
        halve: A file that is cut to half its size first: what a kill in the middle of writing it leaves.
    """
    if name != _target.name:
        return
    _target.left -= 1
    if _target.left == 0:
        if halve is not None:
            os.truncate(halve, halve.stat().st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)


def crash_at(text: str) -> None:
    """Chooses the place anew, ``name:count`` or nothing, in a process that was forked after the import."""
    global _target
    _target = _Target(text)
