"""The process of a command: its standard streams, and Ctrl-C however often it comes."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from jsa.errors import fail, guarded

STORM_SECONDS = 2.0
"""Ctrl-C again within this time is the same one."""


def own_process(action: Callable[[], int]) -> int:
    """Run the action of a program in a process that ends with it, and return its exit code."""
    if _fill_closed_streams():
        return fail("standard output is closed: open it, for instance by > /dev/null", 2)
    interrupt = _Interrupt()
    # Whoever started this with Ctrl-C ignored, as nohup does, means it.
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    try:
        return guarded(action)
    except Exception:
        if not interrupt.raised:
            raise
        # A library that was interrupted while it was imported ends in an error of its own.
        return fail("stopped", 130)
    finally:
        # The interpreter takes a moment to end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Interrupt:
    """A handler that raises one KeyboardInterrupt for a storm of signals, so that none hits what cleans up."""

    def __init__(self) -> None:
        self._last = -STORM_SECONDS

    @property
    def raised(self) -> bool:
        """Whether there was a signal."""
        return self._last >= 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._last >= STORM_SECONDS:
            self._last = now
            raise KeyboardInterrupt


def _fill_closed_streams() -> bool:
    """Open the null device for each standard stream that is closed, and tell whether the output was.

    Otherwise the next file that is opened would take its place, and get what is meant for the terminal.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    was_closed = sys.stdout is None
    # typeshed does not know that they can be None.
    for name in [name for name in ("stdout", "stderr") if getattr(sys, name) is None]:
        setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 (open to the end)
    return was_closed
