"""Number settings of dataclasses: the range that is declared with a field is checked, and shown in the help."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Annotated, get_type_hints

import tyro

from jsa.errors import Range


class Ranged:
    """Base of dataclasses whose numbers have ranges.

    Example:
        >>> @dataclass
        ... class Settings(Ranged):
        ...     rows: Annotated[int | None, whole(1)] = None
        >>> Settings(rows=0)
        Traceback (most recent call last):
        jsa.errors.UsageError: rows must be 1 or more, not 0
    """

    def __post_init__(self) -> None:
        # mypy does not know that every class can be hashed.
        for name, limits in declared_ranges(type(self)).items():  # type: ignore[arg-type]
            limits.check(**{name: getattr(self, name)})


def whole(least: int | None = None, most: int | None = None) -> object:
    """Declare the range of a field of whole numbers, or of a tuple of them."""
    return tyro.conf.arg(help_behavior_hint=_Hint(Range(least, most, whole=True)))


def real(**limits: float) -> object:
    """Declare the range of a field of floating-point numbers; the keywords are those of ``Range``."""
    return tyro.conf.arg(help_behavior_hint=_Hint(Range(whole=False, **limits)))


@dataclass(frozen=True)
class _Hint:
    """What the help says after the text of a field."""

    limits: Range

    def __call__(self, default: str) -> str:
        return f"(default: {default}; {self.limits})"


@functools.cache
def declared_ranges(kind: type) -> dict[str, Range]:
    """Return the ranges of the fields of a dataclass, by name."""
    hints = get_type_hints(kind, include_extras=True)
    said = {
        name: getattr(about, "help_behavior_hint", None)
        for name, hint in hints.items()
        for about in getattr(hint, "__metadata__", ())
    }
    return {name: hint.limits for name, hint in said.items() if isinstance(hint, _Hint)}


Seed = Annotated[int, whole()]
Threads = Annotated[int | None, whole(1, 1024)]
MemoryLimit = Annotated[float | None, real(above=0)]
Fraction = Annotated[float, real(above=0, below=1)]
