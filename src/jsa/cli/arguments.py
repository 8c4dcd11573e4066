"""Command-line arguments from dataclasses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import tyro

from jsa.errors import UsageError
from jsa.ranges import Ranged, Seed, Threads

if TYPE_CHECKING:
    from jsa.runs.build import OpenedRun

T = TypeVar("T")


@dataclass(frozen=True)
class RunArguments(Ranged):
    """The arguments of every command about a trained model."""

    run: Annotated[Path, tyro.conf.arg(metavar="RUN"), tyro.conf.Positional]
    """The run folder."""
    seed: Seed = 0
    """Random seed."""
    checkpoint: Literal["best", "last"] = "best"
    """The weights to use: those of the best or of the last epoch."""
    data_dir: Path | None = None
    """The folder of the data, if it has moved since the run."""
    threads: Threads = None
    """CPU threads; torch's default if not given."""

    def open(self) -> OpenedRun:
        """Set up torch as the arguments say and open the run. Torch is imported only now."""
        import torch

        from jsa.runs.build import open_run

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        torch.set_flush_denormal(True)
        return open_run(self.run, self.checkpoint, self.data_dir)


def refuse_split_of_other_data(data: Path | None, split: str) -> None:
    """Refuse --split beside --data: another table has no splits."""
    if data is not None and split != "test":
        raise UsageError(f"--data takes all rows of {data}: leave out --split")


def parse(kind: type[T], command: str, arguments: Sequence[str], default: T | None = None) -> T:
    """Parse the arguments of a command. Each field of the dataclass is a flag, and its docstring is the help.

    An invalid argument ends the program with exit code 2 and a message on standard error.
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
