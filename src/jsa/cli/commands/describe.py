"""``jsa describe``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jsa.cli.arguments import RunArguments, parse
from jsa.errors import UsageError, check_at_least
from jsa.io.atomic_files import check_destination, write_arrays

if TYPE_CHECKING:
    from jsa.data.schema import RowShape
    from jsa.evaluation.latent_effects import Effects


@dataclass(frozen=True)
class DescribeArguments(RunArguments):
    """Tell what each latent variable stands for: how often it is on, and which columns change with it.

    Each is set to each of its values while the others stay as q(h | x) drew them. Those that explain most come first.
    """

    split: Literal["train", "valid", "test"] = "train"
    """Which rows of the run's data."""
    rows: int | None = 1000
    """How many of them, the first ones."""
    variables: int = 10
    """How many latent variables are shown."""
    columns: int = 5
    """How many columns are shown of each."""
    out: Path | None = None
    """Also write a .npz file with shares, means and the variance explained of all latent variables in their order. Or,
    where rows are pictures, a .png file of what those that are shown add (white) and take away (black)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, rows=self.rows, variables=self.variables, columns=self.columns)


def run(arguments: Sequence[str]) -> None:
    """Describes as the arguments say."""
    parsed = parse(DescribeArguments, "describe", arguments)
    if parsed.out is not None:
        check_destination(parsed.out, "--out", npz="numbers", png="a picture")

    from jsa.data.schema import observed_labels
    from jsa.data.splits import counted
    from jsa.evaluation.latent_effects import effects
    from jsa.evaluation.rows import Subset
    from jsa.training.progress import evaluation_progress

    opened = parsed.open()
    if parsed.out is not None and parsed.out.suffix == ".png" and opened.shape.image_shape is None:
        raise UsageError(f"the rows of {opened.splits.name} are no pictures: write numbers to a .npz file")
    rows = Subset.first(opened.splits.parts[parsed.split], parsed.rows)
    with evaluation_progress(len(rows), "effects") as progress:
        found = effects(opened.model, rows, parsed.seed, progress)
    labels = observed_labels(opened.shape)
    on = counted(len(rows), f"{parsed.split} row")
    print(f"{counted(len(found.shares), 'latent variable')} next to the data, on {on}")
    shown = found.strongest[: parsed.variables]
    for variable in shown:
        for line in _paragraph(found, variable, labels, parsed.columns):
            print(line)
    if parsed.out is None:
        return
    if parsed.out.suffix == ".npz":
        write_arrays(parsed.out, {"shares": found.shares, "means": found.means, "explained": found.explained})
        written = len(found.shares)
    else:
        _draw(parsed.out, found, shown, opened.shape)
        written = len(shown)
    print(f"\n{counted(written, 'latent variable')} in {parsed.out}")


def _paragraph(found: Effects, variable: int, labels: Sequence[str | None], columns: int) -> Iterator[str]:
    """How often a variable has its values, and the columns that change most with it."""
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


def _draw(path: Path, found: Effects, shown: Sequence[int], shape: RowShape) -> None:
    """A picture for each bit and for each class: gray where nothing changes."""
    import torch

    from jsa.runs.plots import save_grid

    added = torch.stack([after - before for variable in shown for before, after in found.changes(variable)])
    # What is given does not change.
    whole = torch.cat([added.new_zeros(len(added), shape.context_width), added], dim=-1)
    most = float(whole.abs().max()) or 1.0
    save_grid(path, 0.5 + 0.5 * whole / most, shape.image_shape)
