"""``jsa evaluate``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jsa.cli.arguments import RunArguments, parse, refuse_split_of_other_data
from jsa.errors import UsageError, check_at_least
from jsa.io.atomic_files import check_destination, write_arrays, write_text


@dataclass(frozen=True)
class EvaluateArguments(RunArguments):
    """The negative log-likelihood of a trained model, with its errors."""

    split: Literal["train", "valid", "test"] = "test"
    """Which rows of the run's data."""
    data: Path | None = None
    """Evaluate the rows of this table instead; it has the columns of the run's data."""
    samples: int | None = None
    """Importance samples a row; 1,000, or 16 if they are annealed, where not given."""
    annealing_steps: int | None = None
    """Anneal each sample from q to the posterior in so many steps, one evaluation each: closer to the NLL where q is
    far from the posterior. Take some rows (--rows) and many times as many steps as there are latent variables."""
    exact: bool = False
    """Sum over all latent states instead; for small latent spaces."""
    bounds: tuple[int, ...] = ()
    """Also the multi-sample lower bounds with these numbers of particles; 1 is the ELBO."""
    rows: int | None = None
    """Only the first rows; all where not given."""
    out: Path | None = None
    """Also write the number of each row in the table, its NLL and its effective sample size: to a .npz file of arrays,
    or to a .csv table."""
    json: Path | None = None
    """Also write these figures to this file; null where one does not exist, such as the error of one row."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, samples=self.samples, rows=self.rows, annealing_steps=self.annealing_steps)
        if self.exact and self.annealing_steps is not None:
            raise UsageError("--exact sums over all states and anneals nothing: leave out --annealing-steps")
        refuse_split_of_other_data(self.data, self.split)

    @property
    def samples_a_row(self) -> int:
        """The samples of a row that were asked for, or usual ones."""
        return self.samples or (1000 if self.annealing_steps is None else 16)


def run(arguments: Sequence[str]) -> None:
    """Evaluates as the arguments say."""
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
    dataset = opened.splits.parts[parsed.split] if parsed.data is None else read_table(parsed.data, opened.shape)
    kind, part = ("split", parsed.split) if parsed.data is None else ("data", str(parsed.data))
    rows = Subset.first(dataset, parsed.rows)
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
    # Files come before what is printed: a reader who closes the pipe early does not lose them. What cannot be written
    # is printed for all that.
    try:
        if parsed.out is not None:
            numbers = range(len(dataset)) if parsed.data is not None else opened.splits.row_numbers(parsed.split)
            figures = {"nll": by_row.nll, "effective_sample_size": by_row.effective_sample_size}
            write_arrays(parsed.out, {"rows": numbers[: len(rows)], **figures})
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


def _write(path: Path | None, record: Mapping[str, object]) -> None:
    if path is not None:
        write_text(path, json.dumps(record, indent=2, allow_nan=False) + "\n")
