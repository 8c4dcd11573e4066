"""The command line as a user meets it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from jsa.cli import main

Word = str | int | Path
"""Some words of a command, divided as a shell does it; a path is one word whatever it contains."""


@dataclass(frozen=True)
class Written:
    """What a command wrote."""

    out: str
    err: str


def exit_code(*words: Word) -> int:
    """Run a command; return its exit code, whether the program returns it or the parser raises it."""
    try:
        return main([each for word in words for each in (shlex.split(word) if isinstance(word, str) else [str(word)])])
    except SystemExit as stop:
        return int(stop.code or 0)


def run_jsa(*words: Word) -> None:
    """Run a command that must work."""
    assert exit_code(*words) == 0


class Terminal:
    """Where commands are run and read."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *words: Word, code: int = 0) -> Written:
        """Run a command that must end with this code."""
        self._capture.readouterr()
        found = exit_code(*words)
        written = Written(*self._capture.readouterr())
        assert found == code, written.err
        assert "Traceback" not in written.err
        return written

    def refuses(self, *words: Word, code: int = 2) -> str:
        """Run a command that must not work, and return all that it wrote: why."""
        written = self(*words, code=code)
        assert written.out == ""
        return written.err
