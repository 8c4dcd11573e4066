"""Arguments from dataclasses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import tyro

T = TypeVar("T")

RunPath = Annotated[Path, tyro.conf.arg(metavar="RUN"), tyro.conf.Positional]
"""The run folder that a command is about."""


def parse(kind: type[T], command: str, arguments: Sequence[str], default: T | None = None) -> T:
    """The arguments of a command; every field of the dataclass is a flag, its docstring the help.

    A wrong argument ends the program with exit code 2 and a sentence on the standard error stream.
    """
    # The flags of groups carry no prefix: --learning-rate, not --optimisation.learning-rate.
    parsed: T = tyro.cli(
        kind,
        prog=f"jsa {command}",
        args=list(arguments),
        default=tyro.MISSING_NONPROP if default is None else default,
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    return parsed
