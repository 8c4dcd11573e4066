"""Processes that are killed at a place or at a moment, and the places."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from jsa.io.fault_injection import crash_at

WRITING = ("begin", "half", "written", "flushed", "renamed", "settled")
"""What writing a file as a whole passes on its way: ``name-begin``, and so on."""
GENERATION = ("begin", "undone", "written", "made")
"""What a checkpoint of chains on disk passes: ``generation-begin``, and so on."""
FAILED = 70


def forked(
    action: Callable[[], object], place: str = "", after: float | None = None, output: Path | None = None
) -> int:
    """Run an action in a process of its own and return its exit code, which is ``-signal.SIGKILL`` if it was killed.

    Args:
        action: What to do; a number that it returns is the exit code.
        place: The passing at which the process is killed, as ``name:count``.
        after: Seconds after which it is killed.
        output: A file for what it writes.
    """
    child = os.fork()
    if child == 0:
        _run(action, place, output)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _run(action: Callable[[], object], place: str, output: Path | None) -> None:
    code = FAILED
    try:
        if output is not None:
            file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, 1)
            os.dup2(file, 2)
        crash_at(place)
        returned = action()
        code = returned if isinstance(returned, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
