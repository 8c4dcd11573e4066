"""Work that cannot fit or end is refused or announced before it begins."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.terminal import Terminal
from jsa.runs.feasibility import announce

GIGABYTES = r"takes about [\d,]+\.\d GB of memory, and \d+\.\d GB may be taken"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("train --particles 10000000", "a step of jsa with 50 rows .*: lower --particles or --batch-size, or raise"),
        (
            "train --latents 20 --estimator enumeration --memory-limit 4",
            "a step of enumeration with 50 rows .*: lower --latents or --batch-size, or raise",
        ),
        ("train --latents 2000000000", "a model of these sizes .*: lower --latents or --hidden, or raise"),
        ("train --hidden 100000 100000", "a model of these sizes .*: lower --latents or --hidden, or raise"),
        (
            "train --validation-samples 9000000000",
            "a validation with 9,000,000,000 samples .* --validation-samples, or",
        ),
        ("train --test-samples 9000000000", "a test with 9,000,000,000 samples .* lower --test-samples, or raise"),
    ],
)
def test_a_run_that_does_not_fit_is_refused(
    table: Path, tmp_path: Path, jsa: Terminal, command: str, sentence: str
) -> None:
    said = jsa.refuses(command, "--model linear --data", table, "--out", tmp_path / "run")
    _matches(said, sentence)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("evaluate {} --samples 9000000000", "an evaluation with 9,000,000,000 samples per row .*: lower --samples"),
        ("evaluate {} --annealing-steps 9000000000", "a ladder of 9,000,000,000 temp.*: lower --annealing-steps, or"),
        ("variance {} --estimators vimco --particles 100000000", "a gradient of vimco .*: lower --rows or --particles"),
        ("sample {} --count 9000000000", "a draw of 9,000,000,000 samples .*: lower --count, or raise"),
        ("sample {} --count 900 --memory-limit 0.001", "a draw of 900 samples .*: lower --count, or raise"),
    ],
)
def test_a_question_that_does_not_fit_is_refused(
    run_folder: Path, here: Path, jsa: Terminal, command: str, sentence: str
) -> None:
    _matches(jsa.refuses(command.format(run_folder)), sentence)
    assert list(here.iterdir()) == []


def _matches(said: str, sentence: str) -> None:
    assert re.match(f"jsa: {sentence}", said), said
    assert re.search(GIGABYTES, said)
    assert said.endswith(", or raise --memory-limit\n")
    assert said.count("\n") == 1


def test_slow_work_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    announce(59, "this")
    announce(7300, "this run")
    assert capsys.readouterr().err == "note: this run will take about 2h01m\n"


def test_every_long_command_announces_itself(
    run_folder: Path, table: Path, here: Path, jsa: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jsa.runs.feasibility.SLOW_SECONDS", 0)
    for command, what in (
        (f"evaluate {run_folder} --samples 5", "this evaluation"),
        (f"evaluate {run_folder} --annealing-steps 5 --rows 2", "this evaluation"),
        (f"evaluate {run_folder} --exact", "this evaluation"),
        (f"variance {run_folder} --estimators jsa --draws 20 --rows 5 --moves 1", "this comparison"),
        (f"train --config {run_folder}/config.json --epochs 1 --out run", "this run"),
    ):
        assert re.match(rf"note: {what} will take about \d+s\n", jsa(command).err)
