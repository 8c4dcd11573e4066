"""The runs of a table: one job for each cell and seed. Nothing here needs torch."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, cast, get_args

from jsa.data import names
from jsa.data.catalog import user_folder
from jsa.errors import DataError, UsageError, unknown_name
from jsa.experiments.tables import Budget, Cell, table, with_epochs, within
from jsa.io.home_folder import expanded
from jsa.ranges import Ranged, whole
from jsa.runs.config import RunConfig

ENVIRONMENT_VARIABLE = "JSA_RUNS"

VARIANCES = "variance.json"
"""The file in a run folder with the gradient variances measured so far."""


def default_runs() -> Path:
    """Return the default folder of runs: that of the environment variable, else the user's data folder."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    return expanded(Path(named)) if named else user_folder() / "runs"


@dataclass(frozen=True)
class Deviations(Ranged):
    """Deviations from the paper. Every table names the deviations of its figures."""

    data: str | None = None
    """Use another dataset, for instance mnist-static if the published file is not available."""
    epochs: Annotated[int | None, whole(1)] = None
    """Train for this many epochs; the stage switch is at the same share of them."""
    screening_samples: Annotated[int | None, whole(1)] = None
    """Importance samples per row in a validation, instead of 100."""
    # With fewer, the error of an NLL or of a variance cannot be estimated.
    samples: Annotated[int | None, whole(2)] = None
    """Importance samples per row for every reported NLL, instead of 1,000."""
    draws: Annotated[int | None, whole(20)] = None
    """Gradients for each variance of table2, instead of 1,000."""

    def concerning(self, config: RunConfig) -> Deviations:
        """Return the deviations that affect a run."""
        return self if config.checkpoints.snapshot_every is not None else replace(self, draws=None)

    def applied(self, config: RunConfig) -> RunConfig:
        """Apply the deviations to a configuration."""
        if self.epochs is not None:
            config = with_epochs(config, self.epochs)
        validation = config.validation
        return replace(
            config,
            data=self.data or config.data,
            validation=replace(
                validation,
                validation_samples=self.screening_samples or validation.validation_samples,
                test_samples=self.samples or validation.test_samples,
            ),
        )

    @property
    def given(self) -> dict[str, object]:
        """The deviations that are set."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def suffix(self) -> str:
        """The addition to the name of a folder.

        >>> Deviations(data="tables/mine.csv", epochs=3).suffix
        '+data=mine,epochs=3'
        """
        parts = [f"{name.replace('_', '-')}={Path(str(value)).stem}" for name, value in self.given.items()]
        return f"+{','.join(parts)}" if parts else ""

    @property
    def flags(self) -> str:
        """The deviations as flags of ``jsa reproduce``.

        >>> Deviations(screening_samples=5).flags
        ' --screening-samples 5'
        """
        return "".join(f" --{name.replace('_', '-')} {shlex.quote(str(value))}" for name, value in self.given.items())


@dataclass(frozen=True)
class Job:
    """One run: a cell of a table with a budget and a seed."""

    table: str
    column: str
    method: str
    budget: str
    seed: int
    deviations: Deviations = field(default_factory=Deviations)
    table_digest: str | None = None
    """The first digits of a hash of a user's table, so that results of two tables are never mixed."""

    def __post_init__(self) -> None:
        whole = table(self.table)
        for kind, name, known in (
            ("budget", self.budget, get_args(Budget)),
            ("column", self.column, list(whole.columns)),
            ("method", self.method, list(whole.rows)),
        ):
            if name not in known:
                raise unknown_name(kind, name, known)

    @property
    def cell(self) -> Cell:
        """The cell of the job."""
        return table(self.table).cell(self.column, self.method)

    @property
    def config(self) -> RunConfig:
        """The settings of the run."""
        config = replace(self.cell.config, seed=self.seed)
        return self.deviations.applied(within(config, cast(Budget, self.budget)))

    def made_with(self, config: RunConfig, followed_rows: int | None = None) -> bool:
        """Return whether a run with this configuration belongs to this job, whatever its data folder.

        Args:
            config: The configuration.
            followed_rows: Another number of followed rows that the run may have; they select nothing.
        """
        expected = self.config.with_switch_epoch
        # An option that the cell leaves open has the value that the run resolved it to.
        expected = replace(expected, method=replace(config.method, **expected.method.given))
        if followed_rows is not None and config.validation.followed_rows == followed_rows:
            expected = replace(expected, validation=replace(expected.validation, followed_rows=followed_rows))
        return config.anywhere.with_switch_epoch == expected

    @property
    def group(self) -> Path:
        """The folder of results that may share a table: those with the same budget and deviations."""
        digest = f",table={self.table_digest}" if self.table_digest else ""
        return Path(self.table) / f"{self.budget}{self.deviations.suffix}{digest}"

    @property
    def name(self) -> str:
        """A name that is unique in its group."""
        return f"{self.column}-{self.method}-seed{self.seed}"

    @property
    def command(self) -> str:
        """The command that makes this result again."""
        seeds = f" --first-seed {self.seed}" if self.seed else ""
        return (
            f"jsa reproduce {self.table} --columns {self.column} --methods {self.method} --budget {self.budget}"
            f"{seeds}{self.deviations.flags}"
        )


@dataclass(frozen=True)
class Places:
    """The folders of runs and of results."""

    runs: Path
    results: Path

    def run(self, job: Job) -> Path:
        """Return the run folder of a job."""
        return self.runs / job.group / job.name

    def result(self, job: Job) -> Path:
        """Return the result file of a job."""
        return self.results / job.group / f"{job.name}.json"

    def log(self, job: Job) -> Path:
        """Return the log file of a job's process."""
        return self.runs / job.group / f"{job.name}.log"


def plan(
    tables: Sequence[str],
    budget: str,
    seeds: Sequence[int],
    methods: Sequence[str],
    columns: Sequence[str],
    deviations: Deviations,
) -> Iterator[Job]:
    """Yield the jobs of some tables, those of the first seed before those of the next.

    Args:
        tables: The tables.
        budget: The budget.
        seeds: The seeds.
        methods: Only these methods; all if empty.
        columns: Only these columns; all if empty.
        deviations: The deviations from the paper.
    """
    cells = [cell for name in tables for row in table(name).rows.values() for cell in row]
    for kind, wanted, known in (
        ("method", methods, [cell.method for cell in cells]),
        ("column", columns, [cell.column for cell in cells]),
    ):
        for name in wanted:
            if name not in known:
                raise unknown_name(kind, name, list(dict.fromkeys(known)))
    digest = None if deviations.data is None else _table_digest(deviations.data)
    for seed in seeds:
        for cell in cells:
            if (not methods or cell.method in methods) and (not columns or cell.column in columns):
                concerning = deviations.concerning(cell.config)
                yield Job(cell.table, cell.column, cell.method, budget, seed, concerning, digest)


def _table_digest(data: str) -> str | None:
    """Return the first digits of a hash of a table; None for a named dataset."""
    if data in names():
        return None
    path = Path(data).expanduser()
    if not path.is_file():
        raise UsageError(f"there is no dataset or file {data}: the datasets are {', '.join(names())}")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:8]


def check_data(jobs: Iterable[Job]) -> None:
    """Load each dataset once; the error for a missing one suggests another."""
    from jsa.data import load  # only here, because jobs are planned without torch

    for name in dict.fromkeys(job.config.data for job in jobs):
        try:
            load(name)
        except DataError as error:
            if name != "mnist-salakhutdinov":
                raise
            raise DataError(
                f"{error}; or take the binarization that comes with jsa for table1 or table3 by --data mnist-static, "
                "which marks the table"
            ) from error
