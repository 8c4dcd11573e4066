"""Results are written and read whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.small_results import result
from jsa.errors import UsageError
from jsa.experiments.jobs import Deviations, Places
from jsa.experiments.results import is_done, read_result, read_results, significant, write_result


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    one = result(table="table2", column="categorical", seed=2, deviations=Deviations(epochs=20), variance=True)
    write_result(one, tmp_path / "one.json")
    assert read_result(tmp_path / "one.json") == one
    assert one.valid.nll == one.leading[0].rescored.nll


def test_a_gradient_without_variance_is_a_result_like_others(tmp_path: Path) -> None:
    one = result("jsa", table="table2", column="categorical", variance=True)
    one = replace(one, variance=(replace(one.variance[0], theta=None), *one.variance[1:]))
    write_result(one, tmp_path / "one.json")
    assert read_result(tmp_path / "one.json") == one


def test_no_path_of_the_machine_is_published(tmp_path: Path) -> None:
    one = result()
    there = replace(one, config=replace(one.config, dataset=replace(one.config.dataset, data_dir=Path("/secret"))))
    write_result(there, tmp_path / "one.json")
    assert "secret" not in (tmp_path / "one.json").read_text()


def test_results_are_found_by_table_and_budget(tmp_path: Path) -> None:
    for one in (result(), result(seed=1), result(table="table3", column="n5")):
        write_result(one, tmp_path / one.job.group / f"{one.job.name}.json")
    (tmp_path / "bench.json").write_text("{}")
    assert [one.job.name for one in read_results(tmp_path)] == ["linear-jsa-seed0", "linear-jsa-seed1", "n5-jsa-seed0"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": 9}, "is no result that this version of jsa reads"),
        ({"best_epoch": 7}, "its best epoch 7 is none of its leading ones"),
        ({"test": {"nll": "low"}}, "test.row_error is missing|test.nll must be of type float"),
        ({"unknown": 1}, "there is no field 'unknown'"),
    ],
)
def test_a_damaged_result_is_named(tmp_path: Path, change: dict[str, object], sentence: str) -> None:
    path = tmp_path / "one.json"
    write_result(result(), path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UsageError, match=sentence) as caught:
        read_result(path)
    assert str(path) in str(caught.value)


def test_a_result_of_other_settings_is_named(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    write_result(result(), path)
    path.write_text(path.read_text().replace('"batch_size": 50', '"batch_size": 500'))
    with pytest.raises(UsageError, match="other settings than this version has for its cell: move it away") as caught:
        read_result(path)
    assert "jsa reproduce table1 --columns linear --methods jsa --budget paper" in str(caught.value)


def test_what_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    one = result()
    with pytest.raises(UsageError, match=r"test\.monte_carlo_error must be of type float and finite"):
        write_result(replace(one, test=replace(one.test, monte_carlo_error=float("nan"))), path)
    assert not path.exists()


def test_the_result_of_another_job_is_not_taken(tmp_path: Path) -> None:
    places, job = Places(tmp_path, tmp_path), result().job
    write_result(result(seed=1), places.result(job))
    with pytest.raises(UsageError, match=r"is the result of another job \(jsa reproduce table1 .* --first-seed 1\)"):
        is_done(job, places)


def test_a_file_has_a_line_for_each_point(tmp_path: Path) -> None:
    write_result(result(), tmp_path / "one.json")
    lines = (tmp_path / "one.json").read_text().splitlines()
    assert sum('"valid_nll"' in line for line in lines) == len(result().curve)


def test_figures_keep_seven_digits() -> None:
    assert significant({"epoch": 3, "nll": 101.123456789}) == {"epoch": 3, "nll": 101.1235}
