"""Crash points: places where a test kills the process, as a power cut or the out-of-memory killer would.

They do nothing unless the environment variable ``JSA_CRASH_AT`` was ``name:count`` when jsa was imported. Then the
process gets SIGKILL when it passes the crash point of that name for the count-th time.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

VARIABLE = "JSA_CRASH_AT"


class _Target:
    """The crash point to die at, and how many passes are left."""

    def __init__(self, text: str) -> None:
        self.name, _, count = text.rpartition(":")
        self.left = int(count or 0)


_target = _Target(os.environ.get(VARIABLE, ""))


def crash_point(name: str, halve: Path | None = None) -> None:
    """Kill the process here if a test asked for it.

    Args:
        name: The name of the crash point.
        halve: A file to cut to half its size first, as a kill in the middle of writing it would.
    """
    if name != _target.name:
        return
    _target.left -= 1
    if _target.left == 0:
        if halve is not None:
            os.truncate(halve, halve.stat().st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)


def crash_at(text: str) -> None:
    """Set the crash point, ``name:count`` or empty, in a process that was forked after the import."""
    global _target
    _target = _Target(text)
