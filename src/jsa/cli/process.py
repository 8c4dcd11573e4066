"""The process of a command: its standard streams, and Ctrl-C however often it comes.

Only what is needed to listen to Ctrl-C is imported at the top, because the rest takes a moment.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

STORM_SECONDS = 2.0
"""Ctrl-C again within this time is the same one."""


def own_process(action: Callable[[], int]) -> int:
    """Run the action of a program in a process that ends with it, and return its exit code."""
    interrupt = _Interrupt()
    # Whoever started this with Ctrl-C ignored, as nohup does, means it.
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
        sys.unraisablehook = interrupt.not_raised
    output_was_closed = _fill_closed_streams()
    try:
        from jsa.errors import fail, guarded

        if output_was_closed:
            return fail("standard output is closed: open it, for instance by > /dev/null", 2)
        return guarded(action)
    except (Exception, KeyboardInterrupt):
        if not interrupt.came:
            raise
        # A library that was interrupted while it was imported ends in an error of its own.
        sys.stderr.write("jsa: stopped\n")
        return 130
    finally:
        # The interpreter takes a moment to end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Interrupt:
    """A handler that raises one KeyboardInterrupt for a storm of signals, so that none hits what cleans up."""

    def __init__(self) -> None:
        self.came = False
        self._last = -STORM_SECONDS

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        now = time.monotonic()
        if now - self._last >= STORM_SECONDS:
            self._last = now
            raise KeyboardInterrupt

    def not_raised(self, lost: sys.UnraisableHookArgs) -> None:
        """Raise a KeyboardInterrupt again that came where Python lets no error out, such as a finalizer."""
        if lost.exc_type is KeyboardInterrupt:
            self._last = -STORM_SECONDS
            threading.Timer(0.05, _thread.interrupt_main).start()
        else:
            sys.__unraisablehook__(lost)


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
        setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 (open to the end)
    return was_closed
