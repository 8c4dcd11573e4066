"""What is said of a job from its folder: where its training is, and what comes behind it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jsa.experiments.jobs import VARIANCES, Job, Places
from jsa.experiments.runner import epochs_done


def job_in(folder: Path, table: str, column: str, epoch: int) -> tuple[Job, Places, Path]:
    job, places = Job(table, column, "jsa", "short", 0), Places(folder, folder)
    run = places.run(job)
    run.mkdir(parents=True)
    line = {"epoch": epoch, "seconds": 75.0, "objective": -90.0}
    (run / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    return job, places, run


def test_a_job_that_trains_shows_its_figures(tmp_path: Path) -> None:
    job, places, _ = job_in(tmp_path, "table2", "categorical", 7)
    epoch, shown = epochs_done(job, places)
    assert epoch == 7
    assert "bound -90.00" in shown


def test_a_job_without_a_folder_is_starting(tmp_path: Path) -> None:
    assert epochs_done(Job("table1", "linear", "jsa", "short", 0), Places(tmp_path, tmp_path)) == (0, "starting")


def test_a_job_that_has_trained_is_scored(tmp_path: Path) -> None:
    job, places, run = job_in(tmp_path, "table1", "linear", 100)
    assert epochs_done(job, places) == (100, "scoring, 1m15s")
    # A table without variances has nothing behind it.
    (run / "evaluation.json").write_text("{}")
    assert epochs_done(job, places) == (100, "scoring, 1m15s")


@pytest.mark.parametrize("measured", [0, 3])
def test_a_job_that_was_scored_measures_its_variances(tmp_path: Path, measured: int) -> None:
    job, places, run = job_in(tmp_path, "table2", "categorical", 50)
    assert epochs_done(job, places) == (50, "scoring, 1m15s")
    (run / "evaluation.json").write_text("{}")
    if measured:
        (run / VARIANCES).write_text(json.dumps([{}] * measured))
    assert epochs_done(job, places) == (50, f"variance {measured + 1} of 10, 1m15s")
