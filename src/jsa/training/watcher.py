"""Who is told how a training goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from jsa.evaluation.likelihood import Progress


class Watcher(Protocol):
    """Who is told how the training goes: a progress bar, a log, or nobody."""

    def start(self, epoch: int, step: int) -> None:
        """The training begins in this epoch, behind so many steps."""
        ...

    def step(self, epoch: int) -> None:
        """A step was made."""
        ...

    def validating(self, rows: int) -> Progress:
        """A validation begins; the answer is told how many rows are done."""
        ...

    def epoch(self, record: Mapping[str, object]) -> None:
        """An epoch ended, with these figures."""
        ...

    def note(self, sentence: str) -> None:
        """Something that whoever trains should know."""
        ...


class Silent:
    """Nobody is told."""

    def start(self, epoch: int, step: int) -> None:
        """Nothing is shown."""

    def step(self, epoch: int) -> None:
        """Nothing is shown."""

    def validating(self, rows: int) -> Progress:
        """Nothing is shown."""
        return lambda count: None

    def epoch(self, record: Mapping[str, object]) -> None:
        """Nothing is shown."""

    def note(self, sentence: str) -> None:
        """Nothing is shown."""

    def close(self) -> None:
        """Nothing is open."""
