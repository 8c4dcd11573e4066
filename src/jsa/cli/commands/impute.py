"""``jsa impute``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from jsa.cli.arguments import RunArguments, parse
from jsa.errors import UsageError
from jsa.io.atomic_files import check_destination, write_arrays
from jsa.ranges import whole

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class ImputeArguments(RunArguments):
    """Fill in the missing values of a table by a trained model, given the other values of each row."""

    data: Path
    """The table. Its columns must be those of the run's data."""
    out: Path | None = None
    """The output file: a .csv table, or a .npz file with arrays x (the table), missing (where values were filled in)
    and, without --draw, mean (probabilities). If not given: imputed-FILE.csv in the run folder."""
    draw: bool = False
    """Draw the values, as in multiple imputation, instead of taking the most probable ones."""
    samples: Annotated[int, whole(1)] = 1000
    """Importance samples per row. If there are no more latent states than that, the sum over all is exact."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.out is not None:
            check_destination(self.out, "--out", csv="a table", npz="arrays")
            if self.out.resolve() == self.data.resolve():
                raise UsageError(f"--out would overwrite {self.data}: choose another file")

    @property
    def destination(self) -> Path:
        """The output file, given or default."""
        seed = f"-seed{self.seed}" if self.draw else ""
        return self.out or self.run / f"imputed-{self.data.stem}{seed}.csv"


def run(arguments: Sequence[str]) -> None:
    """Run ``jsa impute``."""
    parsed = parse(ImputeArguments, "impute", arguments)
    out = parsed.destination

    import torch

    from jsa.data.schema import written_columns
    from jsa.data.splits import counted
    from jsa.data.tables.table import read_table
    from jsa.evaluation.codes import class_numbers, most_probable
    from jsa.evaluation.imputation import impute
    from jsa.evaluation.rows import Subset
    from jsa.runs.build import observed_layer
    from jsa.runs.cost import rows_cost
    from jsa.runs.feasibility import announce, refuse_beyond_memory
    from jsa.training.progress import evaluation_progress

    opened = parsed.open()
    rows = read_table(parsed.data, opened.schema)
    if rows.missing is None:
        raise UsageError(f"{parsed.data} has no missing values: there is nothing to fill in")
    incomplete_rows = Subset(rows, rows.missing.any(-1).nonzero().flatten())
    cost = rows_cost(incomplete_rows, parsed.samples, partial(impute, opened.model))
    refuse_beyond_memory(cost.bytes, f"filling in a row by {parsed.samples:,} samples", "lower --samples")
    announce(cost.seconds, "this")
    with evaluation_progress(len(rows), "rows") as progress:
        filled = impute(opened.model, rows, parsed.samples, draw=parsed.draw, seed=parsed.seed, progress=progress)
    layer, missing = observed_layer(opened.schema), rows.missing
    x = most_probable(layer, filled.x)
    if (context := rows.batch(torch.arange(len(rows))).context) is not None:
        context = class_numbers(layer, context)
        x = torch.cat([context, x], dim=1)
        missing = torch.cat([torch.zeros_like(context, dtype=torch.bool), missing], dim=1)
    if out.suffix == ".csv":
        write_arrays(out, written_columns(opened.schema, x.numpy()))
    else:
        write_arrays(out, {"x": x, "missing": missing} | ({} if parsed.draw else {"mean": filled.x}))
    incomplete = missing.any(-1)
    gaps = f"{counted(int(missing.sum()), 'missing value')} of {counted(int(incomplete.sum()), 'row')}"
    print(f"{gaps} filled in: {out}{_trust(filled.effective_sample_size[incomplete], parsed.samples)}")


def _trust(sizes: Tensor, samples: int) -> str:
    """Tell how reliable the estimates are: exact, or the effective sample sizes."""
    if not bool(sizes.isfinite().all()):
        return " (exact)"
    return f"; effective sample size {float(sizes.mean()):.1f} of {samples}, at least {float(sizes.min()):.1f}"
