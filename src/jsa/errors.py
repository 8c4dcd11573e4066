"""Errors that a user can fix, one sentence each, and the exit codes of the command line."""

from __future__ import annotations

import difflib
import errno
import math
import operator
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TextIO


class JsaError(Exception):
    """Base of all errors that the command line prints as one sentence, without a traceback."""

    exit_code = 1


class UsageError(JsaError):
    """An invalid argument; the sentence says how to fix it.

    Not a ValueError, because argument parsers catch those and wrap them in text of their own.
    """

    exit_code = 2


class DataError(JsaError):
    """A data file that is missing, damaged, or has values that the model does not support."""


class NumericalError(JsaError, ArithmeticError):
    """A loss, weight or gradient that is not finite."""


class CheckpointError(JsaError):
    """A run folder or checkpoint that cannot be read or does not match the run."""


class BrokenPromiseError(JsaError, AssertionError):
    """A method that does not keep what every method promises: a failure to a test runner, a sentence elsewhere."""


def shortened(text: object) -> str:
    """Return text from an untrusted file as an error can quote it: printable, and at most 200 characters.

    >>> shortened("word"), len(shortened("word" * 1000)), shortened("two\\nlines")
    ('word', 200, 'two\\\\nlines')
    """
    start = str(text)[:201]
    whole = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in start)
    return whole if len(whole) <= 200 else f"{whole[:197]}..."


OUT_OF_MEMORY = ("allocate memory", "out of memory", "size calculation overflowed", "Overflow when unpacking")
"""Parts of torch's messages about a tensor that exceeds the device, the memory, or a 64-bit size."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """Return the error for an unknown name, which suggests the closest known one.

    >>> str(unknown_name("model", "nonlinaer", ["linear", "nonlinear"]))
    "there is no model 'nonlinaer': did you mean 'nonlinear'? Known are: linear, nonlinear"
    """
    choices = sorted(known)
    near = difflib.get_close_matches(name.lower(), choices, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? Known are" if near else "known are"
    return UsageError(f"there is no {kind} '{name}': {hint}: {', '.join(choices)}")


@dataclass(frozen=True)
class Range:
    """The numbers that a setting accepts: finite ones, or whole ones of at most 64 bits.

    >>> str(Range(above=0, below=1)), str(Range(1, 100, whole=True)), str(Range())
    ('above 0 and below 1', 'from 1 to 100', 'finite')
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    whole: bool = False

    def __str__(self) -> str:
        if self.least is not None and self.most is not None:
            return f"from {self.least} to {self.most}"
        return " and ".join(words.format(limit) for words, limit, _ in self._limits) or self._size

    def check(self, **numbers: Any) -> None:
        """Refuse settings outside the range. Keywords name the settings; None is one not given, a tuple has several.

        >>> Range(above=0, below=1).check(average_decay=1.5)
        Traceback (most recent call last):
        jsa.errors.UsageError: average-decay must be above 0 and below 1, not 1.5
        """
        for name, given in numbers.items():
            label = name.replace("_", "-")
            for value in given if isinstance(given, tuple) else () if given is None else (given,):
                # Whole numbers of any library can be an index.
                if self.whole and not hasattr(value, "__index__"):
                    raise UsageError(f"{label} must be a whole number, not {shortened(value)}")
                sized = -(2**63) <= value < 2**63 if self.whole else abs(value) < math.inf
                if not (sized and all(holds(value, limit) for _, limit, holds in self._limits)):
                    known = sized or self.most is not None or not self._limits
                    raise UsageError(f"{label} must be {self}{'' if known else f' and {self._size}'}, not {value}")

    @property
    def _size(self) -> str:
        return "of at most 64 bits" if self.whole else "finite"

    @property
    def _limits(self) -> list[tuple[str, float, Callable[[float, float], bool]]]:
        """The limits in words, as numbers, and how a number must compare with them."""
        named = (
            ("{} or more", self.least, operator.ge),
            ("above {}", self.above, operator.gt),
            ("at most {}", self.most, operator.le),
            ("below {}", self.below, operator.lt),
        )
        return [(words, limit, holds) for words, limit, holds in named if limit is not None]


def check_at_least(lowest: int, **numbers: float | None) -> None:
    """Refuse settings that are below a limit or not whole. The keywords name the settings; None is not given.

    >>> check_at_least(1, batch_size=0)
    Traceback (most recent call last):
    jsa.errors.UsageError: batch-size must be 1 or more, not 0
    """
    Range(lowest, whole=True).check(**numbers)


def guarded(action: Callable[[], int]) -> int:
    """Run the action of a program and return its exit code; print an error as one sentence."""
    try:
        code = _exit_code(action)
        sys.stdout.flush()
        return code
    except JsaError as error:
        return fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return fail("stopped", 130)
    except OSError as error:
        broken = _drop_if_broken(sys.stdout)
        if isinstance(broken or error, BrokenPipeError):
            # The reader closed the pipe, who needs no sentence.
            return 1
        if broken is not None:
            return fail(f"standard output cannot be written ({broken.strerror})", 1)
        place = f"{shortened(error.filename)}: " if error.filename else ""
        remedy = ", for the shell limits the size of files: raise ulimit -f" if error.errno == errno.EFBIG else ""
        return fail(f"{place}{error.strerror or error}{remedy}", 1)
    except (MemoryError, RuntimeError, TypeError) as error:
        if not is_out_of_memory(error):
            raise
        return fail("not enough memory: use fewer latents, particles, samples or rows", 1)


def fail(sentence: str, code: int) -> int:
    """Print an error, if anybody can read it, and return the exit code."""
    with suppress(OSError):
        sys.stderr.write(f"jsa: {sentence}\n")
    for stream in (sys.stdout, sys.stderr):
        _drop_if_broken(stream)
    return code


def _exit_code(action: Callable[[], int]) -> int:
    try:
        return action()
    except SystemExit as stop:
        # So the parser of arguments ends after help, or after an error that it has printed.
        return int(stop.code or 0)


def _drop_if_broken(stream: TextIO) -> OSError | None:
    """Return why a standard stream cannot be written, None if it can. Nothing more of it is then written at exit."""
    try:
        stream.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error
    return None


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out, for which torch has no exception type on the CPU."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in OUT_OF_MEMORY)
