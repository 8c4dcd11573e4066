"""``jsa describe``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from jsa.cli.arguments import RunArguments, parse
from jsa.io.atomic_files import check_destination, write_arrays
from jsa.ranges import whole


@dataclass(frozen=True)
class DescribeArguments(RunArguments):
    """Show what each latent variable stands for: how often it is on, and which columns change with it.

    Each variable is set to each of its values while the others stay as drawn from q(h | x). The variables that explain
    most come first.
    """

    split: Literal["train", "valid", "test"] = "train"
    """The rows of the run's data to use."""
    rows: Annotated[int | None, whole(1)] = 1000
    """Use only this many rows, spread evenly."""
    variables: Annotated[int, whole(1)] = 10
    """The number of latent variables to show."""
    columns: Annotated[int, whole(1)] = 5
    """The number of columns to show for each."""
    out: Path | None = None
    """Write the shares, means and explained variance of all latent variables to this .npz file."""


def run(arguments: Sequence[str]) -> None:
    """Run ``jsa describe``."""
    parsed = parse(DescribeArguments, "describe", arguments)
    if parsed.out is not None:
        check_destination(parsed.out, "--out", npz="arrays")

    from jsa.data.schema import observed_labels
    from jsa.data.splits import counted
    from jsa.evaluation.latent_effects import describe
    from jsa.evaluation.rows import Subset
    from jsa.training.progress import evaluation_progress

    opened = parsed.open()
    rows = Subset.spread(opened.splits.parts[parsed.split], parsed.rows)
    with evaluation_progress(len(rows), "effects") as progress:
        found = describe(opened.model, rows, parsed.seed, progress=progress)
    labels = observed_labels(opened.schema)
    print(found.text(labels, parsed.variables, parsed.columns, row=f"{parsed.split} row"))
    if parsed.out is not None:
        write_arrays(parsed.out, {"shares": found.shares, "means": found.means, "explained": found.explained})
        print(f"\n{counted(len(found.shares), 'latent variable')} in {parsed.out}")
