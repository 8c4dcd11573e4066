"""The cells of the tables are the paper's settings, and their text says what they are worth."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields, replace
from pathlib import Path

import pytest

from helpers.own_tables import write
from helpers.small_results import result
from jsa.cli.arguments import parse
from jsa.cli.commands.train import TrainArguments, default_arguments
from jsa.errors import UsageError
from jsa.estimators.registry import check_options
from jsa.experiments.comparison import ComparedCell, Comparison, compare, write_tables
from jsa.experiments.jobs import Deviations, Job, Places, default_runs, plan
from jsa.experiments.results import Result
from jsa.experiments.tables import METHODS, TABLES
from jsa.experiments.worker import published_methods
from jsa.report.formatting import plus_minus
from jsa.runs.config import RunConfig

# Column by column, as the paper has them.
PAPER = {
    "linear": "REINFORCE 170.1 RWS 108.0±0.3 NVIL 113.1 Concrete 107.2 REBAR 107.7 VIMCO 107.5±0.3 ARM 107.2±0.1 "
    "JSA 105.5±0.1",
    "nonlinear": "REINFORCE 114.1 RWS 99.2±0.2 NVIL 102.2 Concrete 99.6 REBAR 100.5 VIMCO 100.6±0.3 ARM 98.4±0.3 "
    "JSA 98.2±0.4",
    "two-layers": "REINFORCE 159.2 RWS 96.5±0.2 NVIL 99.8 Concrete 95.6 REBAR 95.5 VIMCO 95.8±0.1 ARM 96.7±0.3 "
    "JSA 95.3±0.1",
    "categorical": "VIMCO 79.3±0.5 ST-Gumbel-S. 82.8±0.2 ARSM 78.7±0.2 JSA 75.3±0.3",
    "n5": "RWS 46.2±0.4 VIMCO 46.3±0.1 JSA 45.2±0.4",
    "n10": "RWS 44.7±0.1 VIMCO 46.2±0.2 JSA 44.2±0.1",
    "n20": "RWS 43.8±0.1 VIMCO 46.2±0.2 JSA 43.2±0.2",
    "n40": "RWS 43.2±0.1 VIMCO 46.1±0.2 JSA 42.9±0.1",
    "n80": "RWS 42.8±0.0 VIMCO 46.0±0.1 JSA 42.6±0.1",
}
SHARED = {"RLOO": "VIMCO", "JSA,-stale-weight": "JSA"}
"""Rows that are compared with the figure of another one."""
CELLS = [cell for found in TABLES.values() for row in found.rows.values() for cell in row]


@pytest.mark.parametrize("column", PAPER)
def test_the_published_figures_are_the_paper_s(column: str) -> None:
    words = PAPER[column].split()
    expected: dict[str, str] = dict(zip(words[::2], words[1::2], strict=True))
    found = {METHODS[cell.method].label.replace(" ", "-"): cell.published for cell in CELLS if cell.column == column}
    assert set(expected) <= set(found)
    for label, published in found.items():
        figure = published and plus_minus(published.nll, published.deviation, digits=1)
        assert figure == expected.get(SHARED.get(label, label))


def test_every_cell_is_the_paper_s_setting() -> None:
    expected = {"table1": (1_000, 600, 50), "table2": (500, 300, 200), "table3": (200, 60, 100)}
    particles = {"table1": 2, "table2": 20}
    for cell in CELLS:
        config = cell.config
        assert (config.epochs, config.switch_epoch, config.batch_size) == expected[cell.table]
        assert (config.optimization.optimizer, config.optimization.learning_rate) == ("adam", 3e-4)
        assert (config.validation.validate_every, config.validation.test_samples) == (5, 1_000)
        assert config.machine.threads == 1
        assert config.method.particles in (None, particles.get(cell.table) or int(cell.column.removeprefix("n")))
        assert config.method.particles or cell.method != "jsa"
        with published_methods():
            check_options(config.estimator, config.method.given)


def test_the_flags_of_a_cell_are_those_of_jsa_train() -> None:
    # Each method and each column once.
    for cell in [*{cell.method: cell for cell in CELLS}.values(), *{cell.column: cell for cell in CELLS}.values()]:
        arguments = shlex.split(cell.flags)
        parsed = parse(TrainArguments, "train", arguments, default_arguments(arguments))
        assert all(getattr(parsed, field.name) == getattr(cell.config, field.name) for field in fields(RunConfig))


def test_a_short_budget_has_a_tenth_of_everything() -> None:
    config = Job("table2", "categorical", "jsa", "short", 3).config
    assert (config.epochs, config.switch_epoch, config.checkpoints.snapshot_every, config.seed) == (50, 30, 5, 3)


def test_deviations_are_seen_in_every_name() -> None:
    deviations = Deviations(data="mnist-static", epochs=4, samples=30)
    job = Job("table1", "linear", "jsa", "short", 1, deviations)
    assert job.config.data == "mnist-static"
    assert (job.config.epochs, job.config.switch_epoch, job.config.validation.test_samples) == (4, 2, 30)
    assert str(job.group) == "table1/short+data=mnist-static,epochs=4,samples=30"
    assert job.command == (
        "jsa reproduce table1 --columns linear --methods jsa --budget short --first-seed 1 --data mnist-static "
        "--epochs 4 --samples 30"
    )


def test_a_plan_takes_what_was_asked_for() -> None:
    jobs = list(plan(["table1", "table3"], "paper", [0, 1], ["jsa"], ["linear", "n5"], Deviations()))
    assert [(job.table, job.column, job.seed) for job in jobs] == [
        (table, column, seed) for seed in (0, 1) for table, column in (("table1", "linear"), ("table3", "n5"))
    ]
    for method, column, sentence in (
        ("jas", "linear", "method 'jas': did you mean 'jsa'"),
        ("jsa", "n5", "column 'n5'"),
    ):
        with pytest.raises(UsageError, match=f"there is no {sentence}"):
            list(plan(["table1"], "paper", [0], [method], [column], Deviations()))


def test_a_plan_drops_deviations_that_make_no_difference() -> None:
    jobs = plan(["table1", "table2"], "short", [0], ["jsa"], ["linear", "categorical"], Deviations(draws=30, epochs=7))
    assert [job.deviations for job in jobs] == [Deviations(epochs=7), Deviations(draws=30, epochs=7)]


def test_an_own_table_is_known_by_its_content(tmp_path: Path) -> None:
    def group(data: str) -> str:
        (job,) = plan(["table1"], "short", [0], ["jsa"], ["linear"], Deviations(data=data))
        return str(job.group)

    path = tmp_path / "mine.csv"
    first, again, other = (group(str(write(path, text))) for text in ("0,1\n", "0,1\n", "1,1\n"))
    assert re.fullmatch(r"table1/short\+data=mine,table=[0-9a-f]{8}", first)
    assert first == again != other
    with pytest.raises(UsageError, match=r"there is no dataset or file nowhere\.csv"):
        group("nowhere.csv")
    assert group("mnist-static") == "table1/short+data=mnist-static"


def test_the_default_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JSA_RUNS", str(tmp_path))
    assert default_runs() == tmp_path
    monkeypatch.delenv("JSA_RUNS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_runs() == tmp_path / "jsa" / "runs"
    job = Job("table1", "linear", "jsa", "short", 0)
    assert Places(Path("runs"), Path("results")).result(job) == Path("results/table1/short/linear-jsa-seed0.json")


def test_own_methods_stand_below_the_rule() -> None:
    (compared,) = compare([result("jsa", 106.0), result("hybrid", 104.0)])
    lines = compared.markdown().splitlines()
    names = [line.split("|")[1].strip() for line in lines if line.startswith("|")]
    assert names[-3:] == ["*ours*", "JSA-Rao-Blackwell", "Hybrid"]
    assert "paper budget, 1000 epochs" in lines[0]
    assert "tenth" not in lines[0]


def cell_of(comparison: Comparison, method: str) -> ComparedCell:
    """The first cell of a method."""
    (found,) = (row.cells[0] for row in comparison.rows if row.name == method)
    return found


@pytest.mark.parametrize(
    ("results", "method", "text"),
    [
        ([result("jsa", 106.0)], "jsa", "106.00 (paper 105.5±0.1, +0.50)"),
        ([result("jsa", 106.0)], "vimco", "not run (paper 107.5±0.3)"),
        ([result("jsa", 106.0)], "hybrid", ""),
        ([result("hybrid", 104.0)], "hybrid", "104.00"),
        ([result("jsa", 105.0), result("jsa", 107.0, seed=1)], "jsa", "106.00±1.41 (paper 105.5±0.1, +0.50)"),
        ([*(result(seed=seed) for seed in range(3)), result("hybrid")], "jsa", "105.00±0.00 (paper 105.5±0.1, -0.50)"),
        ([*(result(seed=seed) for seed in range(3)), result("hybrid")], "hybrid", "105.00 [1 of 3 seeds]"),
        (
            [replace(result(), stopped_at=700, followed_rows=200)],
            "jsa",
            "105.00 [stopped at epoch 700 of 1000, 200 rows followed] (paper 105.5±0.1, -0.50)",
        ),
    ],
)
def test_a_cell_says_what_it_is_worth(results: list[Result], method: str, text: str) -> None:
    (compared,) = compare(results)
    assert str(cell_of(compared, method)) == text
    assert f"| {text} " in compared.markdown()
    assert f"Seeds: {', '.join(str(seed) for seed in compared.seeds)}." in compared.markdown()


def test_budgets_and_deviations_are_never_mixed(tmp_path: Path) -> None:
    deviating = result("jsa", 102.0, deviations=Deviations(samples=50))
    results = [result("jsa", 100.0, budget="short"), result("jsa", 101.0), deviating]
    tables = write_tables(results, tmp_path)
    assert sorted(str(cell_of(one, "jsa").results[0].test.nll) for one in tables) == ["100.0", "101.0", "102.0"]
    text = (tmp_path / "table1.md").read_text()
    assert text.count("## ") == 3
    assert "a tenth of the paper's epochs" in text
    assert "deviating: samples=50" in text
    assert "screen with 100 samples; the leading epochs, 3 at most, are scored again" in text


def test_other_epochs_are_no_tenth() -> None:
    (compared,) = compare([result(budget="short", deviations=Deviations(epochs=7))])
    assert "; ".join(compared.marks) == (
        "short budget, 7 epochs; deviating: epochs=7; not comparable with the paper's figures"
    )


@pytest.mark.parametrize("budget", ["paper", "short"])
def test_figures_of_other_data_stand_by_themselves(budget: str) -> None:
    (compared,) = compare([result(budget=budget, deviations=Deviations(data="tables/mine.csv"))])
    heading = compared.markdown().splitlines()[0]
    assert heading.startswith("## Test NLL of generative models with Bernoulli variables on mine.csv (")
    assert "not comparable with the paper's figures" in heading
    assert str(cell_of(compared, "jsa")) == "105.00"
    assert str(cell_of(compared, "vimco")) == ""
    assert "paper 1" not in compared.markdown()
