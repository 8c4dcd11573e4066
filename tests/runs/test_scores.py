"""What a scoring came to, written as JSON and read back."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.small_results import score
from jsa.errors import CheckpointError
from jsa.runs.folder import RunFolder
from jsa.runs.scores import Scores, read_rescored, read_scores, write_rescored, write_scores
from jsa.training.selection import ValidatedEpoch

ONE = replace(score(91.5), row_error=math.nan, monte_carlo_error=math.nan, upward_bias=math.nan, samples=1, rows=1)


def refuse(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def test_what_one_row_and_one_sample_cannot_tell_is_null(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write_scores(folder, Scores(ValidatedEpoch(92.5, 3), 1, ONE))
    write_rescored(folder, {3: ONE})
    written = json.loads(folder.evaluation.read_text(), parse_constant=refuse)["test"]
    assert json.loads(folder.rescored.read_text(), parse_constant=refuse)["3"] == written
    assert written["row_error"] is written["monte_carlo_error"] is written["upward_bias"] is None
    for found in (read_scores(folder).test, read_rescored(folder)[3]):
        assert found is not None
        assert math.isnan(found.row_error)
        assert math.isnan(found.monte_carlo_error)
        assert math.isnan(found.upward_bias)
        assert (found.nll, found.samples, found.rows) == (91.5, 1, 1)


def test_files_of_earlier_versions_are_read(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write_scores(folder, Scores(ValidatedEpoch(92.5, 3), 1, ONE))
    folder.evaluation.write_text(folder.evaluation.read_text().replace("null", "NaN"))
    found = read_scores(folder).test
    assert found is not None
    assert math.isnan(found.row_error)


def test_a_run_without_validation_or_test_says_so(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write_scores(folder, Scores(ValidatedEpoch(math.nan, 3), 1, None))
    written = json.loads(folder.evaluation.read_text(), parse_constant=refuse)
    assert (written["valid_nll"], written["test"], written["best_epoch"]) == (None, None, 3)
    found = read_scores(folder)
    assert math.isnan(found.best.nll)
    assert (found.best.epoch, found.test) == (3, None)


@pytest.mark.parametrize("name", ["nll", "effective_sample_size", "samples", "rows"])
def test_a_figure_that_always_exists_may_not_be_null(tmp_path: Path, name: str) -> None:
    folder = RunFolder(tmp_path)
    write_scores(folder, Scores(ValidatedEpoch(92.5, 3), 1, ONE))
    record = json.loads(folder.evaluation.read_text())
    record["test"][name] = None
    folder.evaluation.write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match=r"evaluation.json is damaged"):
        read_scores(folder)
