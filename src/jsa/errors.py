"""The errors that a user can mend: one sentence each, and the exit code of the command line."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterable


class JsaError(Exception):
    """What the command line prints as one sentence, without a traceback."""

    exit_code = 1


class UsageError(JsaError):
    """An argument that cannot be right: the sentence says how to mend it.

    It is no ValueError, because parsers of arguments catch those and wrap them in words of their own.
    """

    exit_code = 2


class DataError(JsaError):
    """A data file that is missing, damaged, or holds what the model cannot take."""


class NumericalError(JsaError, ArithmeticError):
    """A loss, weight or gradient that is not finite."""


class CheckpointError(JsaError):
    """A run folder or checkpoint that cannot be read, or belongs to something else."""


def shortened(text: object) -> str:
    """What a sentence quotes of somebody else's file, which may hold a word of any length, and of any characters.

    >>> shortened("word"), len(shortened("word" * 1000)), shortened("two\\nlines")
    ('word', 200, 'two\\\\nlines')
    """
    start = str(text)[:201]
    whole = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in start)
    return whole if len(whole) <= 200 else f"{whole[:197]}..."


OUT_OF_MEMORY = ("allocate memory", "out of memory", "size calculation overflowed", "Overflow when unpacking")
"""What torch says where a tensor is too large for a device, for all memory, or for a number of 64 bits."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that does not exist, with the nearest one that does.

    >>> str(unknown_name("model", "nonlinaer", ["linear", "nonlinear"]))
    "there is no model 'nonlinaer': did you mean 'nonlinear'? Known are: linear, nonlinear"
    """
    choices = sorted(known)
    near = difflib.get_close_matches(name.lower(), choices, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? Known are" if near else "known are"
    return UsageError(f"there is no {kind} '{name}': {hint}: {', '.join(choices)}")


def check_at_least(lowest: int, **numbers: float | None) -> None:
    """Refuses settings that are too low or not whole, by their names as flags; None is one that was not given.

    >>> check_at_least(1, batch_size=0)
    Traceback (most recent call last):
    jsa.errors.UsageError: batch-size is 1 or more, not 0
    """
    for name, value in numbers.items():
        # Whole numbers of any library can be an index.
        if value is not None and not hasattr(value, "__index__"):
            raise UsageError(f"{name.replace('_', '-')} is a whole number, not {shortened(value)}")
        if value is not None and value < lowest:
            raise UsageError(f"{name.replace('_', '-')} is {lowest} or more, not {value}")


def guarded(action: Callable[[], int]) -> int:
    """The exit code of a program: what its action returns, or that of an error, which is said in one sentence."""
    try:
        code = action()
        sys.stdout.flush()
        return code
    except JsaError as error:
        return _said(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _said("stopped", 130)
    except BrokenPipeError:
        # Whoever read the output has seen enough. What is left must not be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _said(f"{place}{error.strerror or error}", 1)
    except (MemoryError, RuntimeError, TypeError) as error:
        if not _asks_too_much(error):
            raise
        return _said("there is not enough memory for this: ask for fewer latents, particles, samples or rows", 1)


def _asks_too_much(error: Exception) -> bool:
    """Whether memory was asked for that is not there: torch has no type of its own for that on the processor."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in OUT_OF_MEMORY)


def _said(sentence: str, code: int) -> int:
    sys.stderr.write(f"jsa: {sentence}\n")
    return code
