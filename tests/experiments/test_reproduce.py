"""``jsa reproduce`` on a small setting: kills of a job and of the command change nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.own_tables import save
from helpers.sizes import sizes
from helpers.terminal import Terminal, exit_code, run_jsa
from jsa.experiments.jobs import Deviations, Job, Places, plan
from jsa.experiments.runner import Lines, run_jobs

SMALL = "--epochs 6 --screening-samples 5 --samples 20 --draws 20 --columns categorical --methods jsa rloo"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    blocks = random.integers(0, 2, (500, 4)).repeat(4, axis=1) ^ (random.random((500, 16)) < 0.05)
    return save(tmp_path_factory.mktemp("data") / "tiny.csv", blocks)


def places(folder: Path) -> list[str]:
    """Flags that keep a test away from the runs of the user and from the results of the project."""
    return ["--runs", str(folder / "runs"), "--results", str(folder / "results")]


def flags(table: Path, folder: Path) -> list[str]:
    return ["reproduce", "table2", "--data", str(table), *SMALL.split(), *places(folder)]


@pytest.fixture(scope="module")
def whole(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results without any kill."""
    folder = tmp_path_factory.mktemp("whole")
    run_jsa(*flags(table, folder))
    return folder


def timeless(folder: Path) -> dict[str, Any]:
    """The results but for the time that they took."""
    found = {}
    for path in sorted((folder / "results").glob("table2/*/*.json")):
        text = re.sub(r'"(training_|processor_)?seconds": [0-9.e-]+', '"seconds": 0', path.read_text())
        found[path.name] = json.loads(text)
    return found


def begun(table: Path, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "jsa", *flags(table, folder)], stderr=subprocess.PIPE)


def workers(folder: Path) -> list[int]:
    """The living processes that hold a run folder; one that was killed leaves its lock behind."""
    found = (path.read_text().strip() for path in (folder / "runs").glob("*/*/*/lock"))
    return [int(number) for number in found if number and Path("/proc", number).exists()]


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)


def metrics(folder: Path) -> Iterator[Path]:
    return (folder / "runs").glob("*/*/*/metrics.jsonl")


def test_it_leaves_results_and_a_table(whole: Path) -> None:
    results = timeless(whole)
    assert list(results) == ["categorical-jsa-seed0.json", "categorical-rloo-seed0.json"]
    for result in results.values():
        assert [point["epoch"] for point in result["curve"]] == [5, 6]
        assert len(result["variance"]) == 6
        assert result["decoder_evaluations"] > 0
    table = (whole / "results" / "table2.md").read_text()
    assert re.search(r"deviating: data=tiny,epochs=6,.*,table=\w{8}; not comparable", table)
    assert len(list((whole / "results").glob("table2/*/*.png"))) == 2


@pytest.fixture
def _no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """No job may be begun."""
    monkeypatch.setattr(subprocess, "Popen", None)


@pytest.mark.usefixtures("_no_job")
def test_a_second_call_reuses_everything(table: Path, whole: Path, jsa: Terminal) -> None:
    assert "2 runs, 2 of them done" in jsa(*flags(table, whole)).out


def test_results_of_another_table_of_the_same_name_are_not_reused(
    table: Path, whole: Path, tmp_path: Path, jsa: Terminal
) -> None:
    other = tmp_path / table.name
    other.write_text(table.read_text())
    assert "is the result of another job" in jsa(*flags(other, whole), "--dry-run", code=2).err
    first, *rest = table.read_text().splitlines()
    other.write_text("\n".join([*rest, first, ""]))
    assert "2 runs, 0 of them done" in jsa(*flags(other, whole), "--dry-run").out


@pytest.mark.usefixtures("_no_job")
@pytest.mark.parametrize(
    ("option", "folder", "sentence"),
    [
        ("--results", "file/inside", "(Not a directory): choose another --results"),
        ("--runs", "file/inside", "(Not a directory): choose another --runs"),
        ("--results", "damaged", "linear-jsa-seed0.json is not valid JSON"),
    ],
)
def test_what_would_fail_in_the_end_is_refused_before_the_work(
    table: Path, tmp_path: Path, jsa: Terminal, option: str, folder: str, sentence: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "damaged" / "table1" / "short").mkdir(parents=True)
    (tmp_path / "damaged" / "table1" / "short" / "linear-jsa-seed0.json").write_text("{")
    assert sentence in jsa(*flags(table, tmp_path), option, tmp_path / folder, code=2).err


def test_a_run_that_another_process_has_is_said_to_be_in_use(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the other one goes on writing into the log that both have."""
    deviations = Deviations(data=str(table), epochs=6, screening_samples=5, samples=20, draws=20)
    (job,) = plan(["table2"], "short", [0], ["jsa"], [], deviations)
    places = Places(tmp_path / "runs", tmp_path / "results")
    code = (
        "import sys; from pathlib import Path; log = Path(sys.argv[1]).open('a'); "
        "log.write('jsa: run is in use by process 7\\n'); log.write('epoch 839/6000, stage 1\\n'); sys.exit(1)"
    )
    places.log(job).parent.mkdir(parents=True)
    places.log(job).write_text("jsa: stopped by an earlier command\n")
    for program, sentence in ((code, "run is in use by process 7"), ("raise TypeError('why')", "TypeError: why")):
        command = [sys.executable, "-c", program, str(places.log(job))]
        monkeypatch.setattr("jsa.experiments.runner.command", lambda *_, command=command: command)
        (failure,) = run_jobs([job], places, 1, Lines([job], places, sys.stderr)).values()
        assert failure == f"{sentence} (see {places.log(job)})"


@pytest.mark.parametrize("pauses", sizes([0.7], [0.7, 0.0, 0.2, 1.5]))
def test_a_killed_job_and_a_killed_command_are_continued(
    table: Path, whole: Path, tmp_path: Path, pauses: list[float]
) -> None:
    for pause in pauses:
        process = begun(table, tmp_path)
        until(lambda: any(path.stat().st_size > 100 for path in metrics(tmp_path)) and workers(tmp_path))
        os.kill(workers(tmp_path)[0], signal.SIGKILL)
        time.sleep(pause)
        process.kill()
        process.communicate()
        # The processes of its jobs end by themselves.
        until(lambda: not workers(tmp_path))
    run_jsa(*flags(table, tmp_path))
    assert timeless(tmp_path) == timeless(whole)


def test_a_job_whose_process_was_stopped_is_continued(table: Path, whole: Path, tmp_path: Path) -> None:
    """By the same command, once the process was given up."""
    deviations = Deviations(data=str(table), epochs=6, screening_samples=5, samples=20, draws=20)
    jobs = list(plan(["table2"], "short", [0], ["rloo"], [], deviations))
    places = Places(tmp_path / "runs", tmp_path / "results")
    stopped = list[int]()

    class Stopping(Lines):
        def glance(self, running: Sequence[Job]) -> None:
            if not stopped and any(metrics(tmp_path)) and workers(tmp_path):
                stopped.append(workers(tmp_path)[0])
                os.kill(stopped[0], signal.SIGSTOP)

    failed = run_jobs(jobs, places, 1, Stopping(jobs, places, sys.stderr), silence=10.0)
    assert [f"its process {stopped[0]} had been silent since" in sentence for sentence in failed.values()] == [True]
    assert run_jobs(jobs, places, 1, Lines(jobs, places, sys.stderr)) == {}
    name = "categorical-rloo-seed0.json"
    assert timeless(tmp_path) == {name: timeless(whole)[name]}


def test_a_stopped_command_says_how_to_go_on(table: Path, tmp_path: Path, whole: Path) -> None:
    process = begun(table, tmp_path)
    until(lambda: any(metrics(tmp_path)))
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 128 + signal.SIGTERM
    assert said.splitlines()[-1] == (
        "jsa: stopped with every run at a checkpoint by SIGTERM; continue with: the same command"
    )
    assert workers(tmp_path) == []
    run_jsa(*flags(table, tmp_path))
    assert timeless(tmp_path) == timeless(whole)


def test_a_run_with_other_settings_is_no_cell_of_the_table(
    table: Path, whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for path in (whole / "runs").glob("*/*/*/config.json"):
        target = tmp_path / path.relative_to(whole)
        target.parent.mkdir(parents=True)
        target.write_text(path.read_text().replace('"batch_size": 200', '"batch_size": 100'))
    assert exit_code(*flags(table, tmp_path)) == 1
    said = capfd.readouterr().err
    assert "was made with other settings than those of this job: move it away" in said
    assert "2 of 2 runs failed; the same command continues them" in said


def test_a_dry_run_begins_nothing(table: Path, tmp_path: Path, jsa: Terminal) -> None:
    assert "categorical-jsa-seed0: to be begun" in jsa(*flags(table, tmp_path), "--dry-run").out
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("table1 --methods jas", "there is no method 'jas'"),
        ("all --data mnist-static", "--data replaces the data of one table: name table1, table2, table3, not"),
        ("table1 --data nowhere.csv", "nowhere.csv"),
        ("figures --results nowhere", "there are no results to draw"),
    ],
)
def test_wrong_arguments_get_one_sentence(arguments: str, sentence: str, tmp_path: Path, jsa: Terminal) -> None:
    assert sentence in jsa("reproduce", *places(tmp_path), arguments, code=2).err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("flag", [True, False])
def test_missing_published_data_has_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jsa: Terminal, flag: bool
) -> None:
    monkeypatch.setenv("JSA_DATA_DIR", "" if flag else str(tmp_path))
    given = f"--data-dir {tmp_path}" if flag else ""
    assert "--data mnist-static" in jsa("reproduce table1", *places(tmp_path), given, code=1).err
