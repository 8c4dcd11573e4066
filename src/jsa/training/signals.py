"""Stop at Ctrl-C and SIGTERM when the running step is done and saved."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from jsa.errors import JsaError
from jsa.evaluation.rows import Progress

SIGNALS = (signal.SIGINT, signal.SIGTERM)

STORM_SECONDS = 2.0
"""A signal again within this time is the same request; after it, somebody does not want to wait for the state."""


class StopRequestedError(Exception):
    """A request to stop, raised between two steps or out of an evaluation."""


class InterruptedRunError(JsaError):
    """A run that was stopped by a signal after its state was saved."""

    def __init__(self, sentence: str, number: int) -> None:
        super().__init__(sentence)
        self.exit_code = 128 + number


class StopRequest:
    """A request to stop; the loop looks at it after each step.

    Attributes:
        number: The number of the signal, None as long as there was none.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take Ctrl-C and SIGTERM as requests. The handlers before are restored at the end, and for a later signal.

        Only the main thread may install handlers: in another one this does nothing.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in SIGNALS}
        # Whoever started this with a signal ignored, as nohup does, means it; none stands for a handler of other code.
        before = {number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)}

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        first = math.inf

        def request(number: int, frame: FrameType | None) -> None:
            nonlocal first
            first, self.number = min(first, time.monotonic()), number
            if time.monotonic() - first >= STORM_SECONDS:
                restore()
                signal.raise_signal(number)

        for number in before:
            signal.signal(number, request)
        try:
            yield
        finally:
            restore()

    def check(self) -> None:
        """Raise ``StopRequestedError`` if there was a signal."""
        if self.number is not None:
            raise StopRequestedError

    def interrupting(self, progress: Progress) -> Progress:
        """Wrap a progress function, which an evaluation calls often, so that it raises after a signal."""

        def advance(rows: int) -> None:
            self.check()
            progress(rows)

        return advance

    def interrupted(self, where: str, resume: str) -> InterruptedRunError:
        """Return the error to raise once everything is saved: one sentence with the way to continue."""
        number = self.number or signal.SIGINT
        return InterruptedRunError(f"stopped {where} by {signal.Signals(number).name}; continue with: {resume}", number)
