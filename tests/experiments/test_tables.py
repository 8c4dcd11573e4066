"""The cells of the tables are the paper's settings, and their text says what they are worth."""

from __future__ import annotations

import re
import shlex
from dataclasses import astuple, fields, replace
from pathlib import Path

import pytest

from helpers.small_results import result
from jsa.cli.arguments import parse
from jsa.cli.commands.train import TrainArguments, default_arguments
from jsa.errors import UsageError
from jsa.estimators.registry import check_options
from jsa.experiments.comparison import ComparedCell, Comparison, compare, write_tables
from jsa.experiments.jobs import Deviations, Job, Places, default_runs, plan
from jsa.experiments.tables import METHODS, TABLES, table
from jsa.experiments.worker import published_methods
from jsa.report.formatting import plus_minus
from jsa.runs.config import TrainConfig

PAPER = {
    "table1": {
        "REINFORCE": ("170.1", "114.1", "159.2"),
        "RWS": ("108.0±0.3", "99.2±0.2", "96.5±0.2"),
        "NVIL": ("113.1", "102.2", "99.8"),
        "Concrete": ("107.2", "99.6", "95.6"),
        "REBAR": ("107.7", "100.5", "95.5"),
        "VIMCO": ("107.5±0.3", "100.6±0.3", "95.8±0.1"),
        "ARM": ("107.2±0.1", "98.4±0.3", "96.7±0.3"),
        "JSA": ("105.5±0.1", "98.2±0.4", "95.3±0.1"),
    },
    "table2": {"VIMCO": ("79.3±0.5",), "ST Gumbel-S.": ("82.8±0.2",), "ARSM": ("78.7±0.2",), "JSA": ("75.3±0.3",)},
    "table3": {
        "RWS": ("46.2±0.4", "44.7±0.1", "43.8±0.1", "43.2±0.1", "42.8±0.0"),
        "VIMCO": ("46.3±0.1", "46.2±0.2", "46.2±0.2", "46.1±0.2", "46.0±0.1"),
        "JSA": ("45.2±0.4", "44.2±0.1", "43.2±0.2", "42.9±0.1", "42.6±0.1"),
    },
}


@pytest.mark.parametrize("name", PAPER)
def test_the_published_figures_are_the_paper_s(name: str) -> None:
    found = {
        METHODS[method].label: tuple(plus_minus(*astuple(cell.published), digits=1) for cell in cells if cell.published)
        for method, cells in table(name).rows.items()
    }
    # Rows that the paper does not have: our own methods, and those that share a figure with another row.
    shared = {"RLOO": "VIMCO", "JSA, stale weight": "JSA", "JSA-Rao-Blackwell": None, "Hybrid": None}
    expected = PAPER[name]
    assert found == {label: expected.get(shared.get(label, label), ()) for label in found}
    assert set(expected) <= set(found)


def test_every_cell_is_the_paper_s_setting() -> None:
    expected = {"table1": (1_000, 600, 50), "table2": (500, 300, 200), "table3": (200, 60, 100)}
    for found in TABLES.values():
        for cell in (cell for row in found.rows.values() for cell in row):
            config = cell.config
            assert (config.epochs, config.switch_epoch, config.batch_size) == expected[found.name]
            assert (config.optimization.optimizer, config.optimization.learning_rate) == ("adam", 3e-4)
            assert (config.validation.validate_every, config.validation.test_samples) == (5, 1_000)
            assert config.machine.threads == 1
            with published_methods():
                check_options(config.estimator, config.method.given)


@pytest.mark.parametrize("name", TABLES)
def test_the_flags_of_a_cell_are_those_of_jsa_train(name: str) -> None:
    for cell in (row[-1] for row in table(name).rows.values()):
        arguments = shlex.split(cell.flags)
        parsed = parse(TrainArguments, "train", arguments, default_arguments(arguments))
        assert all(getattr(parsed, field.name) == getattr(cell.config, field.name) for field in fields(TrainConfig))


@pytest.mark.parametrize(
    ("name", "column", "particles"), [("table1", "linear", 2), ("table2", "categorical", 20), ("table3", "n80", 80)]
)
def test_particles_are_those_of_the_column(name: str, column: str, particles: int) -> None:
    given = {
        method: given
        for method in table(name).rows
        if (given := table(name).cell(column, method).config.method.particles)
    }
    assert set(given.values()) == {particles}
    assert "jsa" in given


def test_a_short_budget_has_a_tenth_of_everything() -> None:
    config = Job("table2", "categorical", "jsa", "short", 3).config
    assert (config.epochs, config.switch_epoch, config.machine.snapshot_every, config.seed) == (50, 30, 5, 3)


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
        ("table1", "linear", 0),
        ("table3", "n5", 0),
        ("table1", "linear", 1),
        ("table3", "n5", 1),
    ]
    with pytest.raises(UsageError, match="there is no method 'jas': did you mean 'jsa'"):
        list(plan(["table1"], "paper", [0], ["jas"], [], Deviations()))
    with pytest.raises(UsageError, match="there is no column 'n5'"):
        list(plan(["table1"], "paper", [0], [], ["n5"], Deviations()))


def test_a_plan_drops_deviations_that_make_no_difference() -> None:
    jobs = plan(["table1", "table2"], "short", [0], ["jsa"], ["linear", "categorical"], Deviations(draws=30, epochs=7))
    assert [job.deviations for job in jobs] == [Deviations(epochs=7), Deviations(draws=30, epochs=7)]


def test_an_own_table_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"

    def group() -> str:
        (job,) = plan(["table1"], "short", [0], ["jsa"], ["linear"], Deviations(data=str(path)))
        return str(job.group)

    path.write_text("0,1\n")
    first = group()
    assert re.fullmatch(r"table1/short\+data=mine,table=[0-9a-f]{8}", first)
    assert group() == first
    path.write_text("1,1\n")
    assert group() != first
    with pytest.raises(UsageError, match=r"there is no dataset and no file nowhere\.csv"):
        list(plan(["table1"], "short", [0], ["jsa"], ["linear"], Deviations(data="nowhere.csv")))
    (named,) = plan(["table1"], "short", [0], ["jsa"], ["linear"], Deviations(data="mnist-static"))
    assert str(named.group) == "table1/short+data=mnist-static"


def test_the_default_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JSA_RUNS", str(tmp_path))
    assert default_runs() == tmp_path
    monkeypatch.delenv("JSA_RUNS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_runs() == tmp_path / "jsa" / "runs"
    job = Job("table1", "linear", "jsa", "short", 0)
    assert Places(Path("runs"), Path("results")).result(job) == Path("results/table1/short/linear-jsa-seed0.json")


def test_a_table_has_both_figures_and_the_difference() -> None:
    ours = result("hybrid", 104.0)
    (compared,) = compare([result("jsa", 106.0), ours])
    lines = compared.markdown().splitlines()
    rows = {line.split("|")[1].strip(): line for line in lines if line.startswith("|")}
    assert "| 106.00 (paper 105.5±0.1, +0.50)" in rows["JSA"]
    assert "not run (paper 98.2±0.4)" in rows["JSA"]
    assert "| 104.00 " in rows["Hybrid"]
    # Ours stand below the rule.
    assert list(rows).index("*ours*") + 1 == list(rows).index("JSA-Rao-Blackwell")
    assert "paper budget, 1000 epochs" in lines[0]
    assert "tenth" not in lines[0]


def cell(comparison: Comparison, method: str) -> ComparedCell:
    """The first cell of a method."""
    (found,) = (row.cells[0] for row in comparison.rows if row.name == method)
    return found


def test_a_run_that_was_cut_short_marks_its_cell() -> None:
    (compared,) = compare([replace(result(), stopped_at=700, followed_rows=200), result("vimco", 107.5)])
    marked = "105.00 [stopped at epoch 700 of 1000, 200 rows followed] (paper 105.5±0.1, -0.50)"
    assert str(cell(compared, "jsa")) == marked
    assert marked in compared.markdown()
    assert str(cell(compared, "vimco")) == "107.50 (paper 107.5±0.3, +0.00)"


def test_seeds_become_mean_and_deviation() -> None:
    (compared,) = compare([result("jsa", 105.0), result("jsa", 107.0, seed=1)])
    assert str(cell(compared, "jsa")) == "106.00±1.41 (paper 105.5±0.1, +0.50)"
    assert "Seeds: 0, 1" in compared.markdown()


def test_a_figure_says_when_it_stands_on_fewer_seeds() -> None:
    (compared,) = compare([*(result(seed=seed) for seed in range(3)), result("vimco", 107.0, seed=1)])
    assert cell(compared, "jsa").ours == "105.00±0.00"
    assert cell(compared, "vimco").ours == "107.00 [1 of 3 seeds]"


def test_budgets_and_deviations_are_never_mixed(tmp_path: Path) -> None:
    deviating = result("jsa", 102.0, deviations=Deviations(samples=50))
    results = [result("jsa", 100.0, budget="short"), result("jsa", 101.0), deviating]
    tables = write_tables(results, tmp_path)
    assert sorted(str(cell(one, "jsa").results[0].test.nll) for one in tables) == ["100.0", "101.0", "102.0"]
    text = (tmp_path / "table1.md").read_text()
    assert text.count("## ") == 3
    assert "a tenth of the paper's epochs" in text
    assert "deviating: samples=50" in text
    assert "screen with 100 samples; the leading epochs, 3 at most, are scored again" in text


def test_other_epochs_are_no_tenth() -> None:
    (compared,) = compare([result(budget="short", deviations=Deviations(epochs=7))])
    assert compared.marks == [
        "short budget, 7 epochs",
        "deviating: epochs=7",
        "not comparable with the paper's figures",
    ]


@pytest.mark.parametrize("budget", ["paper", "short"])
def test_figures_of_other_data_stand_by_themselves(budget: str) -> None:
    (compared,) = compare([result(budget=budget, deviations=Deviations(data="tables/mine.csv"))])
    heading = compared.markdown().splitlines()[0]
    assert heading.startswith("## Test NLL of generative models with Bernoulli variables on mine.csv (")
    assert "not comparable with the paper's figures" in heading
    assert str(cell(compared, "jsa")) == "105.00"
    assert str(cell(compared, "vimco")) == ""
    assert "paper 1" not in compared.markdown()
