"""Arguments from dataclasses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import tyro

from jsa.errors import UsageError, check_at_least

if TYPE_CHECKING:
    from jsa.runs.build import OpenedRun

T = TypeVar("T")


@dataclass(frozen=True)
class RunArguments:
    """What every command about a trained model takes."""

    run: Annotated[Path, tyro.conf.arg(metavar="RUN"), tyro.conf.Positional]
    """The run folder."""
    seed: int = 0
    """Seed of the draws."""
    checkpoint: Literal["best", "last"] = "best"
    """Which weights."""
    data_dir: Path | None = None
    """Where the data is, if not where the run had it."""
    threads: int | None = None
    """CPU threads; torch's own choice where not given."""

    def __post_init__(self) -> None:
        check_at_least(1, threads=self.threads)

    def open(self) -> OpenedRun:
        """The run, with torch set up as the arguments say; torch is imported only now."""
        import torch

        from jsa.runs.build import open_run

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        torch.set_flush_denormal(True)
        return open_run(self.run, self.checkpoint, self.data_dir)


def refuse_split_of_other_data(data: Path | None, split: str) -> None:
    """Refuses a split beside a table of its own, which has none."""
    if data is not None and split != "test":
        raise UsageError(f"--data takes the rows of {data}: leave out --split")


def parse(kind: type[T], command: str, arguments: Sequence[str], default: T | None = None) -> T:
    """The arguments of a command; every field of the dataclass is a flag, its docstring the help.

    A wrong argument ends the program with exit code 2 and a sentence on the standard error stream.
    """
    # The flags of groups carry no prefix: --learning-rate, not --optimization.learning-rate.
    parsed: T = tyro.cli(
        kind,
        prog=f"jsa {command}",
        args=list(arguments),
        default=tyro.MISSING_NONPROP if default is None else default,
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    return parsed
