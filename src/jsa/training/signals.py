"""Ctrl-C and SIGTERM: the running step is finished and kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from jsa.errors import JsaError
from jsa.evaluation.rows import Progress

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequestedError(Exception):
    """Raised out of an evaluation, which holds nothing that must be kept."""


class InterruptedRunError(JsaError):
    """A run that was stopped by a signal after its state was written."""

    def __init__(self, sentence: str, number: int) -> None:
        super().__init__(sentence)
        self.exit_code = 128 + number


class StopRequest:
    """Whether somebody asked the run to stop; the loop looks at it after each step.

    Attributes:
        number: The number of the signal, none as long as nobody asked.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Takes Ctrl-C and SIGTERM as requests; what they did before is restored at the end, and for a second signal.

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

        def request(number: int, frame: FrameType | None) -> None:
            self.number = number
            restore()

        for number in before:
            signal.signal(number, request)
        try:
            yield
        finally:
            restore()

    def check(self) -> None:
        """Raises if somebody asked."""
        if self.number is not None:
            raise StopRequestedError

    def interrupting(self, progress: Progress) -> Progress:
        """The same progress, which an evaluation calls often, but raising if somebody asked."""

        def advance(rows: int) -> None:
            self.check()
            progress(rows)

        return advance

    def interrupted(self, where: str, resume: str) -> InterruptedRunError:
        """What to raise when everything is written: one sentence with the way to continue."""
        number = self.number or signal.SIGINT
        return InterruptedRunError(f"stopped {where} by {signal.Signals(number).name}; continue with: {resume}", number)
