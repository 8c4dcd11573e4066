"""``jsa impute``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jsa.cli.arguments import RunArguments, parse
from jsa.errors import UsageError, check_at_least
from jsa.files import check_destination, write_arrays


@dataclass(frozen=True, kw_only=True)
class ImputeArguments(RunArguments):
    """Fill in the missing values of a table by what a trained model says of them, given the values that are there."""

    data: Path
    """The table, such as the one that was learned from; it has the columns of the run's data."""
    out: Path | None = None
    """A .csv table, or a .npz file with the table (x), where its values were missing (missing) and, without --draw, the
    probability of each value (mean); imputed-FILE.csv in the run folder where not given."""
    draw: bool = False
    """Draw the values instead of taking the most probable ones, so that the table varies as complete ones do: for
    multiple imputation, once with each of several seeds."""
    samples: int = 1000
    """Importance samples a row."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, samples=self.samples)


def run(arguments: Sequence[str]) -> None:
    """Fills in as the arguments say."""
    parsed = parse(ImputeArguments, "impute", arguments)
    out = parsed.out or parsed.run / f"imputed-{parsed.data.stem}.csv"
    if parsed.out is not None:
        check_destination(parsed.out, "--out", csv="a table", npz="arrays")

    import numpy as np

    from jsa.data.labels import column_labels
    from jsa.data.splits import counted
    from jsa.data.table import read_table
    from jsa.encoding import most_probable
    from jsa.evaluation.imputation import impute
    from jsa.training.report import evaluation_progress

    opened = parsed.open()
    rows = read_table(parsed.data, opened.shape)
    if rows.missing is None:
        raise UsageError(f"{parsed.data} has no missing values: there is nothing to fill in")
    with evaluation_progress(len(rows), "rows") as progress:
        mean = impute(opened.model, rows, parsed.samples, draw=parsed.draw, seed=parsed.seed, progress=progress)
    completed = most_probable(opened.model.observed, mean).numpy()
    table = completed if rows.context is None else np.concatenate([rows.context.numpy(), completed], axis=1)
    if out.suffix == ".csv":
        write_arrays(out, dict(zip(column_labels(opened.shape), table.T, strict=True)))
    else:
        write_arrays(out, {"x": table, "missing": rows.missing} | ({} if parsed.draw else {"mean": mean}))
    incomplete = counted(int(rows.missing.any(-1).sum()), "row")
    print(f"{counted(rows.missing_values, 'missing value')} of {incomplete} filled in: {out}")
