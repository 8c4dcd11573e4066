"""Errors that a user can fix, one sentence each, and the exit codes of the command line."""

from __future__ import annotations

import difflib
import math
import os
import sys
from collections.abc import Callable, Iterable


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


def check_range(
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    **numbers: float | None,
) -> None:
    """Refuse settings that are outside a range, infinite or NaN. Keywords name the settings; None is one not given.

    >>> check_range(above=0, below=1, average_decay=1.5)
    Traceback (most recent call last):
    jsa.errors.UsageError: average-decay must be above 0 and below 1, not 1.5
    """
    limits: list[tuple[str, Callable[[float], bool]]] = []
    if least is not None:
        limits.append((f"{least} or more", lambda value: value >= least))
    if above is not None:
        limits.append((f"above {above}", lambda value: value > above))
    if most is not None:
        limits.append((f"at most {most}", lambda value: value <= most))
    if below is not None:
        limits.append((f"below {below}", lambda value: value < below))
    for name, value in numbers.items():
        if value is None or (abs(value) < math.inf and all(holds(value) for _, holds in limits)):
            continue
        words = [*(word for word, _ in limits), *([] if abs(value) < math.inf else ["finite"])]
        raise UsageError(f"{name.replace('_', '-')} must be {' and '.join(words)}, not {value}")


def check_at_least(lowest: int, **numbers: float | None) -> None:
    """Refuse settings that are below a limit or not whole. The keywords name the settings; None is not given.

    >>> check_at_least(1, batch_size=0)
    Traceback (most recent call last):
    jsa.errors.UsageError: batch-size must be 1 or more, not 0
    """
    for name, value in numbers.items():
        # Whole numbers of any library can be an index.
        if value is not None and not hasattr(value, "__index__"):
            raise UsageError(f"{name.replace('_', '-')} must be a whole number, not {shortened(value)}")
    check_range(least=lowest, **numbers)


def guarded(action: Callable[[], int]) -> int:
    """Run the action of a program and return its exit code; print an error as one sentence."""
    try:
        code = action()
        sys.stdout.flush()
        return code
    except JsaError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail("stopped", 130)
    except BrokenPipeError:
        # The reader closed the pipe. The rest must not be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _fail(f"{place}{error.strerror or error}", 1)
    except (MemoryError, RuntimeError, TypeError) as error:
        if not _is_out_of_memory(error):
            raise
        return _fail("not enough memory: use fewer latents, particles, samples or rows", 1)


def _is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out, for which torch has no exception type on the CPU."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in OUT_OF_MEMORY)


def _fail(sentence: str, code: int) -> int:
    sys.stderr.write(f"jsa: {sentence}\n")
    return code
