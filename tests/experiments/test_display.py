"""What is said of a job from its folder: where its training is, and what comes after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jsa.experiments.jobs import VARIANCES, Job, Places
from jsa.experiments.runner import epochs_done


@pytest.mark.parametrize(
    ("table", "epoch", "files", "shown"),
    [
        ("table2", 7, {}, "bound -90.00"),
        ("table1", None, {}, "starting"),
        ("table1", 100, {}, "scoring, 1m15s"),
        # A table without variances has nothing to do after that.
        ("table1", 100, {"evaluation.json": {}}, "scoring, 1m15s"),
        ("table2", 50, {}, "scoring, 1m15s"),
        ("table2", 50, {"evaluation.json": {}}, "variance 1 of 10, 1m15s"),
        ("table2", 50, {"evaluation.json": {}, VARIANCES: [{}] * 3}, "variance 4 of 10, 1m15s"),
    ],
)
def test_a_job_shows_where_it_is(
    tmp_path: Path, table: str, epoch: int | None, files: dict[str, object], shown: str
) -> None:
    job = Job(table, {"table1": "linear", "table2": "categorical"}[table], "jsa", "short", 0)
    places = Places(tmp_path, tmp_path)
    places.run(job).mkdir(parents=True)
    if epoch is not None:
        files = {"metrics.jsonl": {"epoch": epoch, "seconds": 75.0, "objective": -90.0}, **files}
    for name, content in files.items():
        (places.run(job) / name).write_text(json.dumps(content) + "\n")
    assert epochs_done(job, places) == (epoch or 0, shown)
