"""Results are written and read whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.damage import edited
from helpers.small_results import result
from jsa.errors import UsageError
from jsa.experiments.jobs import Deviations, Places
from jsa.experiments.results import is_done, read_result, read_results, write_result
from jsa.experiments.version_0_1_0 import NAMES, SETTINGS
from jsa.io.json_records import to_record
from jsa.runs.config import RunConfig


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    one = result(table="table2", column="categorical", seed=2, deviations=Deviations(epochs=20), variance=True)
    # A gradient without variance is a result like others.
    still = replace(one, variance=(replace(one.variance[0], theta=None), *one.variance[1:]))
    for each in (one, still):
        write_result(each, tmp_path / "one.json")
        assert read_result(tmp_path / "one.json") == each
    assert one.valid.nll == one.leading[0].rescored.nll


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
        ({"format": 9}, "is not a result that this version of jsa can read"),
        ({"best_epoch": 7}, "its best epoch 7 is not a leading epoch"),
        *(({"stopped_at": epoch}, "its last epoch is not between the best one, 1000, and") for epoch in (999, 1_001)),
        ({"test": {"nll": "low"}}, "test.row_error is missing|test.nll must be of type float"),
        ({"unknown": 1}, "there is no field 'unknown'"),
    ],
)
def test_a_damaged_result_is_named(tmp_path: Path, change: dict[str, object], sentence: str) -> None:
    path = tmp_path / "one.json"
    write_result(result(), path)
    edited(lambda record: record.update(change))(path)
    with pytest.raises(UsageError, match=sentence) as caught:
        read_result(path)
    assert str(path) in str(caught.value)


def test_a_result_of_other_settings_is_named(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    write_result(result(), path)
    edited(lambda record: record["config"].update(batch_size=500))(path)
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


RESULTS = Path(__file__).parents[2] / "results"


def test_every_committed_result_is_read() -> None:
    """They are those of version 0.1.0, spelled as it spelled them."""
    paths = sorted(RESULTS.glob("table*/*/*.json"))
    assert len(paths) > 50
    assert any('"optimiser"' in path.read_text(encoding="utf-8") for path in paths)
    for path, found in zip(paths, read_results(RESULTS), strict=True):
        record = json.loads(path.read_text(encoding="utf-8"))
        assert found.test.nll == record["test"]["nll"]
        assert found.config.network is not None
        assert found.config.network.initialization == record["config"]["network"]["initialisation"]
        assert len(found.curve) == len(record["curve"])
        assert Places(RESULTS, RESULTS).result(found.job) == path


def changed(path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A result of version 0.1.0 at some path, and what was changed in it."""
    shutil.copy(RESULTS / "table1" / "paper" / "linear-jsa-seed0.json", path)
    edited(change)(path)
    return path


def test_a_missing_setting_has_the_value_of_0_1_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(record: dict[str, Any]) -> None:
        del record["config"]["batch_size"], record["config"]["optimisation"]["learning_rate"]
        del record["config"]["machine"]["mapped_chains"]

    path = changed(tmp_path / "one.json", without)
    assert read_result(path).config == read_result(changed(tmp_path / "whole.json", lambda record: None)).config
    # It is that of the frozen record, whatever the default is today.
    monkeypatch.setitem(SETTINGS, "batch_size", 51)
    with pytest.raises(UsageError, match="other settings than this version has for its cell"):
        read_result(path)


def test_every_setting_of_today_has_a_value_of_0_1_0() -> None:
    def within(today: Mapping[str, Any], frozen: Mapping[str, Any]) -> None:
        assert set(today) <= set(frozen)
        for name, value in today.items():
            if isinstance(value, dict):
                within(value, frozen[name])

    within(to_record(RunConfig()), SETTINGS)


@pytest.mark.parametrize(("value", "read"), [("old", True), ("other", False)])
def test_a_setting_that_no_longer_exists_must_have_its_old_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, read: bool
) -> None:
    monkeypatch.setitem(SETTINGS["optimization"], "cut", "old")
    monkeypatch.setitem(SETTINGS, "cut_group", {"name": 1})
    path = changed(tmp_path / "one.json", lambda record: record["config"]["optimisation"].update(cut=value))
    if read:
        assert read_result(path).config.optimization.optimizer == "adam"
    else:
        with pytest.raises(UsageError, match="the setting cut no longer exists, and 'other' is not its old default"):
            read_result(path)


def test_two_spellings_of_one_setting_are_refused(tmp_path: Path) -> None:
    path = changed(tmp_path / "one.json", lambda record: record["config"]["optimisation"].update(optimizer="sgd"))
    with pytest.raises(UsageError, match="the field 'optimizer' appears in two spellings: remove one of them"):
        read_result(path)


@pytest.mark.parametrize("in_config", [True, False])
def test_a_run_of_0_1_0_that_was_cut_short_is_read(tmp_path: Path, in_config: bool) -> None:
    def short(record: dict[str, Any]) -> None:
        record |= {"stopped_at": 800, "followed_rows": 200}
        if in_config:
            record["config"]["validation"]["followed_rows"] = 200

    found = read_result(changed(tmp_path / "one.json", short))
    assert found.remark == "stopped at epoch 800 of 1000, 200 rows followed"
    write_result(found, tmp_path / "today.json")
    assert read_result(tmp_path / "today.json") == found


def test_results_of_today_have_the_same_form(tmp_path: Path) -> None:
    path = RESULTS / "table1" / "short" / "two-layers-vimco-seed0.json"
    write_result(read_result(path), tmp_path / "today.json")
    text = path.read_text(encoding="utf-8")
    for old, name in NAMES.items():
        text = text.replace(f'"{old}"', f'"{name}"')
    today, before = json.loads((tmp_path / "today.json").read_text()), json.loads(text)
    assert today | {"config": None} == before | {"config": None}
    assert set(today["config"]) == {*before["config"], "checkpoints", "output", "steps"}
