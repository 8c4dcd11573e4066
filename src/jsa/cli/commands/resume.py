"""``jsa resume``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from jsa.cli.arguments import parse
from jsa.cli.commands.train import show
from jsa.ranges import MemoryLimit, Ranged, real


@dataclass(frozen=True)
class ResumeArguments(Ranged):
    """Continue a run that was stopped, with its own options, to the same end as if it had not been.

    Of a finished run the figures are printed.
    """

    run: Annotated[Path, tyro.conf.arg(metavar="RUN"), tyro.conf.Positional]
    """The run folder."""
    learning_rate: Annotated[float | None, real(above=0, most=10)] = None
    """Another learning rate from here on."""
    non_finite: Literal["stop", "skip"] | None = None
    """Another answer to a loss or gradient that is not finite from here on."""
    memory_limit: MemoryLimit = None
    """Another limit of memory, in gigabytes."""
    data_dir: Path | None = None
    """The folder of the data, if it has moved since the run."""
    model: str | None = None
    """The package.module:factory of a run with an own model."""
    estimator: str | None = None
    """The package.module:Class of a run with an own method."""


def run(arguments: Sequence[str]) -> None:
    """Run ``jsa resume``."""
    parsed = parse(ResumeArguments, "resume", arguments)

    from jsa.cli.own import imported
    from jsa.runs.build import Changes, resume
    from jsa.runs.folder import RunFolder
    from jsa.training.signals import StopRequest

    if RunFolder.open(parsed.run).finished:
        print(f"the run {parsed.run} is finished")
    changes = Changes(parsed.learning_rate, parsed.non_finite, parsed.memory_limit)
    show(resume(parsed.run, changes, StopRequest(), parsed.data_dir, imported(parsed.model, parsed.estimator)))
