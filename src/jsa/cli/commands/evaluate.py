"""``jsa evaluate``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from jsa.cli.arguments import RunArguments, parse, refuse_split_of_other_data
from jsa.errors import UsageError
from jsa.io.atomic_files import check_destination, write_arrays
from jsa.io.json_records import write_json
from jsa.ranges import whole

if TYPE_CHECKING:
    from jsa.evaluation.rows import Rows
    from jsa.model import LatentVariableModel


@dataclass(frozen=True)
class EvaluateArguments(RunArguments):
    """Estimate the negative log-likelihood (NLL) of a trained model, with error bars."""

    split: Literal["train", "valid", "test"] = "test"
    """The rows of the run's data to evaluate."""
    data: Path | None = None
    """Evaluate all rows of this table instead. Its columns must be those of the run's data."""
    samples: Annotated[int | None, whole(1)] = None
    """Importance samples per row. If not given: 1,000, or 16 with --annealing-steps."""
    annealing_steps: Annotated[int | None, whole(1)] = None
    """Anneal each sample from q to the posterior in this many steps, for a tighter estimate if q is a poor fit. Each
    step is one evaluation: limit the rows with --rows, and use many times as many steps as latent variables."""
    exact: bool = False
    """Sum over all latent states instead of sampling, for small latent spaces."""
    bounds: Annotated[tuple[int, ...], whole(1)] = ()
    """Also compute the multi-sample lower bounds with these numbers of particles; 1 is the ELBO."""
    rows: Annotated[int | None, whole(1)] = None
    """Use only this many rows, spread evenly; all if not given."""
    out: Path | None = None
    """Write the number, NLL and effective sample size of each row to this .npz or .csv file."""
    json: Path | None = None
    """Write the results to this JSON file; a value that does not exist, such as the error of one row, is null."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exact and self.annealing_steps is not None:
            raise UsageError("--exact sums over all states, so nothing is annealed: leave out --annealing-steps")
        refuse_split_of_other_data(self.data, self.split)

    @property
    def samples_a_row(self) -> int:
        """The number of samples per row, given or default."""
        return self.samples or (1000 if self.annealing_steps is None else 16)


def run(arguments: Sequence[str]) -> None:
    """Run ``jsa evaluate``."""
    parsed = parse(EvaluateArguments, "evaluate", arguments)

    if parsed.json is not None:
        check_destination(parsed.json, "--json")
    if parsed.out is not None:
        check_destination(parsed.out, "--out", npz="arrays", csv="a table")

    samples = parsed.samples_a_row

    from jsa.data.tables.table import read_table
    from jsa.evaluation.annealing import annealed_row_likelihoods
    from jsa.evaluation.likelihood import check_bounds, exact_row_likelihoods, multi_sample_bounds, row_likelihoods
    from jsa.evaluation.results import figures_record
    from jsa.evaluation.rows import Subset
    from jsa.training.progress import evaluation_progress

    if parsed.bounds:
        check_bounds(parsed.bounds, samples)
    opened = parsed.open()
    dataset = opened.splits.parts[parsed.split] if parsed.data is None else read_table(parsed.data, opened.schema)
    kind, part = ("split", parsed.split) if parsed.data is None else ("data", str(parsed.data))
    rows = Subset.spread(dataset, parsed.rows)
    _check(parsed, opened.model, rows)
    with evaluation_progress(len(rows), part) as progress:
        if parsed.exact:
            by_row = exact_row_likelihoods(opened.model, rows, progress=progress)
        elif parsed.annealing_steps is not None:
            by_row = annealed_row_likelihoods(
                opened.model, rows, samples, parsed.annealing_steps, seed=parsed.seed, progress=progress
            )
        else:
            by_row = row_likelihoods(opened.model, rows, samples, seed=parsed.seed, progress=progress)
    result = by_row.mean
    lines = [f"{part} NLL {result}"]
    if result.warning is not None:
        lines.append(f"note: {result.warning}")
    record = {kind: part, "checkpoint": parsed.checkpoint, **figures_record(result)}
    # Files are written before anything is printed, so that a reader who closes the pipe early does not lose them. The
    # results are printed even if they cannot be written.
    try:
        if parsed.out is not None:
            numbers = rows.numbers.numpy()
            if parsed.data is None:
                numbers = opened.splits.row_numbers(parsed.split)[numbers]
            figures = {"nll": by_row.nll, "effective_sample_size": by_row.effective_sample_size}
            write_arrays(parsed.out, {"rows": numbers, **figures})
            lines.append(f"{len(rows)} NLLs in {parsed.out}")
        _write(parsed.json, record)
    finally:
        print(*lines, sep="\n")
    if not parsed.bounds:
        return
    with evaluation_progress(len(rows), "bounds") as progress:
        bounds = multi_sample_bounds(opened.model, rows, parsed.bounds, samples, seed=parsed.seed, progress=progress)
    _write(parsed.json, {**record, "bounds": figures_record(bounds)})
    for particles, bound in bounds.items():
        print(f"{'ELBO' if particles == 1 else f'bound with {particles} particles'} {bound:.3f}")


def _check(parsed: EvaluateArguments, model: LatentVariableModel, rows: Rows) -> None:
    """Refuse an evaluation that does not fit into memory, and tell how long it will take if that is long."""
    from jsa.evaluation.annealing import annealed_row_likelihoods, inverse_temperatures
    from jsa.evaluation.likelihood import exact_row_likelihoods, row_likelihoods
    from jsa.runs.cost import cost_at, enumeration_cost, rows_cost
    from jsa.runs.feasibility import announce, refuse_beyond_memory

    if parsed.exact:
        found, times = enumeration_cost(model, rows, exact_row_likelihoods), 1.0
        refuse_beyond_memory(found.bytes, "the sum over all states", "leave out --exact")
    elif (steps := parsed.annealing_steps) is not None:
        # A temperature is a float in a tensor, then an object in a list.
        ladder = cost_at(steps, inverse_temperatures, 1000).bytes + 2.0 * sys.getsizeof(0.5) * steps
        refuse_beyond_memory(ladder, f"a ladder of {steps:,} temperatures", "lower --annealing-steps")
        few = min(steps, 20)
        found = rows_cost(rows, parsed.samples_a_row, partial(annealed_row_likelihoods, model, steps=few))
        times = steps / few
    else:
        found = rows_cost(rows, parsed.samples_a_row, partial(row_likelihoods, model))
        times = 2.0 if parsed.bounds else 1.0
    refuse_beyond_memory(found.bytes, f"an evaluation with {parsed.samples_a_row:,} samples per row", "lower --samples")
    announce(times * found.seconds, "this evaluation")


def _write(path: Path | None, record: Mapping[str, object]) -> None:
    if path is not None:
        write_json(path, record)
