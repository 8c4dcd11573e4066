"""``jsa reproduce``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from jsa.cli.arguments import parse
from jsa.data.catalog import ENVIRONMENT_VARIABLE as DATA_FOLDER
from jsa.errors import JsaError, UsageError
from jsa.experiments.comparison import write_tables
from jsa.experiments.jobs import Deviations, Job, Places, default_runs, plan
from jsa.experiments.results import is_done, read_results
from jsa.experiments.tables import TABLES
from jsa.io.atomic_files import make_folder
from jsa.ranges import Ranged, whole


@dataclass(frozen=True)
class ReproduceArguments(Ranged):
    """Train the missing runs of the paper's tables, and write the tables with our figures beside the paper's.

    Finished runs are reused, and interrupted ones are continued when the same command is repeated.
    """

    what: Annotated[Literal["table1", "table2", "table3", "figures", "all"], tyro.conf.Positional]
    """A table, all tables with their figures, or only the tables and figures of existing results, without training."""
    budget: Literal["paper", "short"] = "short"
    """The paper's epochs, or a tenth of them. Every table names its budget."""
    seeds: Annotated[int, whole(1, 1000)] = 1
    """Seeds per cell. With several, a cell shows their mean and standard deviation."""
    first_seed: Annotated[int, whole(0)] = 0
    """The first seed."""
    methods: tuple[str, ...] = ()
    """Only these methods; all if not given."""
    columns: tuple[str, ...] = ()
    """Only these columns, such as the models of table1 or the particles n5, n10, ... of table3; all if not given."""
    jobs: Annotated[int | None, whole(1, 1024)] = None
    """Parallel runs, each with one thread; one per processor if not given."""
    runs: Path | None = None
    """The folder of the run folders. If not given: JSA_RUNS, or else the user's data folder."""
    data_dir: Path | None = None
    """The folder of the published data. If not given: JSA_DATA_DIR, or else the user's data folder."""
    results: Path = Path("results")
    """The folder of the results, one file per run."""
    dry_run: bool = False
    """Show which runs are missing, and train nothing."""
    deviations: Deviations = field(default_factory=Deviations)


def run(arguments: Sequence[str]) -> None:
    """Run ``jsa reproduce``."""
    parsed = parse(ReproduceArguments, "reproduce", arguments)
    places = Places(parsed.runs or default_runs(), parsed.results)
    if parsed.data_dir is not None:
        # For the processes of the jobs too, because results do not include the data folder.
        os.environ[DATA_FOLDER] = str(parsed.data_dir.resolve())
    if parsed.what != "figures":
        if parsed.what == "all" and parsed.deviations.data is not None:
            raise UsageError(f"--data replaces the data of one table: name {', '.join(TABLES)}, not all")
        names = list(TABLES) if parsed.what == "all" else [parsed.what]
        seeds = range(parsed.first_seed, parsed.first_seed + parsed.seeds)
        jobs = list(plan(names, parsed.budget, seeds, parsed.methods, parsed.columns, parsed.deviations))
        missing = [job for job in jobs if not is_done(job, places)]
        print(f"{len(jobs)} runs, {len(jobs) - len(missing)} of them done; run folders in {places.runs}")
        if parsed.dry_run:
            _show(missing, places)
            return
        # Checked before training, because it would fail only afterwards.
        read_results(places.results)
        make_folder(places.results, "--results")
        make_folder(places.runs, "--runs")
        failed = _train(missing, places, parsed.jobs or os.cpu_count() or 1)
        _write_tables(places, {job.table for job in jobs})
        if failed:
            raise JsaError(f"{len(failed)} of {len(missing)} runs failed; the same command continues them")
    if parsed.what in ("figures", "all"):
        _draw(places.results)


def _show(jobs: Sequence[Job], places: Places) -> None:
    from jsa.experiments.runner import epochs_done

    for job in jobs:
        epoch, _ = epochs_done(job, places)
        standing = f"to be continued at epoch {epoch} of {job.config.epochs}" if epoch else "to be begun"
        print(f"{job.group}/{job.name}: {standing}")


def _train(jobs: Sequence[Job], places: Places, at_once: int) -> dict[Job, str]:
    if not jobs:
        return {}
    from jsa.experiments.jobs import check_data
    from jsa.experiments.runner import display, run_jobs
    from jsa.training.signals import StopRequest

    check_data(jobs)
    stop = StopRequest()
    shown = display(jobs, places, at_once)
    try:
        with stop.listening():
            return run_jobs(jobs, places, at_once, shown, stop)
    finally:
        shown.close()


def _draw(folder: Path) -> None:
    """Make tables and figures from the existing results."""
    from jsa.experiments.figures import draw_figures

    results = read_results(folder)
    for path in draw_figures(results, folder / "figures"):
        print(path)
    write_tables(results, folder)


def _write_tables(places: Places, wanted: set[str]) -> None:
    for comparison in write_tables(read_results(places.results), places.results):
        if comparison.table.name in wanted:
            print(f"\n{comparison.markdown()}")
    for name in sorted(wanted):
        if (places.results / f"{name}.md").is_file():
            print(places.results / f"{name}.md")
