"""Command-line arguments from dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import tyro

from jsa.errors import UsageError
from jsa.io.home_folder import expanded
from jsa.io.memory import set_memory_limit
from jsa.ranges import MemoryLimit, Ranged, Seed, Threads
from jsa.runs.config import OWN

if TYPE_CHECKING:
    from jsa.front.run import Run

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
    memory_limit: MemoryLimit = None
    """Memory that the program may take, in gigabytes; nine tenths of what is free if not given."""
    model: str | None = None
    """The package.module:factory of a run with an own model."""

    def open(self) -> Run:
        """Set up torch as the arguments say and open the run with its model. Torch is imported only now."""
        import torch

        from jsa.cli.own import imported
        from jsa.front.run import open_run

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        torch.set_flush_denormal(True)
        set_memory_limit(self.memory_limit)
        if self.model is not None and OWN not in self.model:
            raise UsageError(f"--model names an own model, as package.module:factory, and {self.model} does not")
        found = open_run(self.run, imported(self.model, None).model, self.checkpoint, data_dir=self.data_dir)
        if found.has_model:
            return found
        raise UsageError(
            f"{self.run} has the model {found.config.model}, which no file may load: give it again by --model "
            "package.module:factory"
        )


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
    return _with_home_folders(parsed)


def _with_home_folders(settings: T) -> T:
    """Return settings with the home folders that their paths begin with, which a shell leaves alone after ``=``."""
    changed: dict[str, object] = {}
    for field in dataclasses.fields(settings):  # type: ignore[arg-type]
        value = getattr(settings, field.name)
        if isinstance(value, Path):
            changed[field.name] = expanded(value)
        elif isinstance(value, tuple):
            changed[field.name] = tuple(expanded(one) if isinstance(one, Path) else one for one in value)
        elif field.name == "data" and isinstance(value, str) and value.startswith("~"):
            changed[field.name] = str(expanded(value))
        elif dataclasses.is_dataclass(value):
            changed[field.name] = _with_home_folders(value)
    return dataclasses.replace(settings, **changed)  # type: ignore[type-var]
