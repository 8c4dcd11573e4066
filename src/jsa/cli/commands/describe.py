"""``jsa describe``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from jsa.cli.arguments import RunArguments, parse
from jsa.io.atomic_files import check_destination, write_arrays
from jsa.ranges import whole

if TYPE_CHECKING:
    from jsa.evaluation.latent_effects import Effects


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
    from jsa.evaluation.latent_effects import effects
    from jsa.evaluation.rows import Subset
    from jsa.training.progress import evaluation_progress

    opened = parsed.open()
    rows = Subset.spread(opened.splits.parts[parsed.split], parsed.rows)
    with evaluation_progress(len(rows), "effects") as progress:
        found = effects(opened.model, rows, parsed.seed, progress)
    labels = observed_labels(opened.shape)
    on = counted(len(rows), f"{parsed.split} row")
    print(f"{counted(len(found.shares), 'latent variable')} next to the data, on {on}")
    for variable in found.strongest[: parsed.variables]:
        for line in _paragraph(found, variable, labels, parsed.columns):
            print(line)
    if parsed.out is not None:
        write_arrays(parsed.out, {"shares": found.shares, "means": found.means, "explained": found.explained})
        print(f"\n{counted(len(found.shares), 'latent variable')} in {parsed.out}")


def _paragraph(found: Effects, variable: int, labels: Sequence[str | None], columns: int) -> Iterator[str]:
    """Yield how often a variable takes its values, and the columns that change most with it."""
    shares, total = found.shares[variable].tolist(), float(found.explained.sum())
    part = float(found.explained[variable]) / total if total else 0.0
    is_bit, width = len(shares) == 2, max(len(label or "") for label in labels)
    yield f"\n{'bit' if is_bit else 'variable'} {variable + 1}, {part:.1%} of what all explain"
    values = [f"on in {shares[1]:.1%} of the rows"] if is_bit else [f"{share:.1%} of the rows" for share in shares]
    for value, (share, (before, after)) in enumerate(zip(values, found.changes(variable), strict=True)):
        yield f"  {share}" if is_bit else f"  class {value}, {share}"
        order = (after - before).abs().argsort(descending=True).tolist()
        for column in [column for column in order if labels[column] is not None][:columns]:
            yield f"    {labels[column]:{width}}  {before[column]:.2f} -> {after[column]:.2f}"
