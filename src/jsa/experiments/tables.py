"""The three tables of the paper: the flags of ``jsa train`` for each cell, and the figure that the paper reports."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Literal

from jsa.errors import unknown_name
from jsa.models.presets import preset
from jsa.report.styles import Style
from jsa.runs.config import RunConfig, with_settings


@dataclass(frozen=True)
class Method:
    """A row of a table: its label, flags and style. Methods of a table that share a color have different marks."""

    label: str
    flags: str
    style: Style


N = "--particles {particles}"
"""For methods with the particles of the column; the others have their own default."""

METHODS = {
    "reinforce": Method("REINFORCE", "--estimator reinforce --baseline none", Style(color=7, mark=5)),
    "nvil": Method("NVIL", "--estimator nvil", Style(color=7, mark=1)),
    "rws": Method("RWS", f"--estimator rws --sleep 0 {N}", Style(color=0, mark=2)),
    "concrete": Method("Concrete", "--estimator concrete", Style(color=2, mark=1)),
    "rebar": Method("REBAR", "--estimator rebar", Style(color=6, mark=5)),
    "vimco": Method("VIMCO", f"--estimator vimco {N}", Style(color=2, mark=4)),
    "rloo": Method("RLOO", f"--estimator rloo {N}", Style(color=5, mark=2)),
    "arm": Method("ARM", "--estimator arm", Style(color=6, mark=3)),
    "arsm": Method("ARSM", "--estimator arsm", Style(color=6, mark=3)),
    "st-gumbel-softmax": Method(
        "ST Gumbel-S.", f"--estimator st-gumbel-softmax --temperature 1 {N}", Style(color=0, mark=1)
    ),
    "jsa": Method("JSA", f"--estimator jsa {N}", Style(color=1, mark=0)),
    # The sampler of the published categorical experiment, an estimator that the worker alone knows.
    "jsa-stale-weight": Method("JSA, stale weight", f"--estimator jsa-stale-weight {N}", Style(color=7, mark=0)),
    "jsa-rao-blackwell": Method("JSA-Rao-Blackwell", f"--estimator jsa-rao-blackwell {N}", Style(color=3, mark=3)),
    "hybrid": Method("Hybrid", f"--estimator hybrid {N}", Style(color=4, mark=1)),
}

PROTOCOL = (
    "--optimizer adam --learning-rate 0.0003 --validate-every 5 --validation-samples 100 --test-samples 1000 "
    "--leading-epochs 3 --threads 1"
)


@dataclass(frozen=True)
class Published:
    """A figure of the paper: a test NLL and, if it has one, the standard deviation over five seeds."""

    nll: float
    deviation: float | None = None


@dataclass(frozen=True)
class Cell:
    """A method in an experiment.

    Attributes:
        table, column, method: Its place, by the names in files and on the command line.
        flags: The flags of ``jsa train`` for its run with the paper's budget.
        published: The paper's figure, if any.
    """

    table: str
    column: str
    method: str
    flags: str
    published: Published | None

    @property
    def config(self) -> RunConfig:
        """The settings of its run."""
        return config_of(self.flags)


@dataclass(frozen=True)
class Column:
    """An experiment: its label, its flags, and the number of particles of the methods that have particles."""

    label: str
    flags: str
    particles: int


@dataclass(frozen=True)
class Table:
    """A table of the paper, followed by our own methods.

    Attributes:
        name: Its name on the command line.
        title: The kind of its figures, with a placeholder ``{data}``.
        data: The paper's data, in words.
        flags: The common flags of its runs.
        columns: The experiments by name.
        published: A line for each method, by name, with the paper's figures; empty for our own methods.
        footnotes: The notes about its figures.
    """

    name: str
    title: str
    data: str
    flags: str
    columns: Mapping[str, Column]
    published: str
    footnotes: tuple[str, ...]

    @cached_property
    def rows(self) -> dict[str, Sequence[Cell]]:
        """Return the cells of each method, with our own methods last."""
        rows: dict[str, Sequence[Cell]] = {}
        for line in self.published.strip().splitlines():
            name, *figures = line.split()
            rows[name] = [
                Cell(
                    self.name,
                    column_name,
                    name,
                    f"{self.flags} {column.flags} {METHODS[name].flags.format(particles=column.particles)}",
                    Published(*map(float, figures[place].split("±"))) if figures else None,
                )
                for place, (column_name, column) in enumerate(self.columns.items())
            ]
        return rows

    def cell(self, column: str, method: str) -> Cell:
        """Return the cell of a column and a method, by their names."""
        return next(cell for cell in self.rows[method] if cell.column == column)


VIMCO_NOTE = (
    "VIMCO: the published implementation of that row is the leave-one-out estimator of the single-sample bound, which "
    "is RLOO here, so both of our rows are compared with it."
)

TABLE_1 = Table(
    "table1",
    "Test NLL of generative models with Bernoulli variables on {data}",
    "binarized MNIST",
    f"--data mnist-salakhutdinov --epochs 1000 --switch-epoch 600 --batch-size 50 --followed-rows 1000 {PROTOCOL}",
    {
        "linear": Column("Linear", "--model linear", 2),
        "nonlinear": Column("Nonlinear", "--model nonlinear", 2),
        "two-layers": Column("Two layers", "--model two-layers", 2),
    },
    """
    reinforce          170.1      114.1      159.2
    nvil               113.1      102.2      99.8
    rws                108.0±0.3  99.2±0.2   96.5±0.2
    concrete           107.2      99.6       95.6
    rebar              107.7      100.5      95.5
    vimco              107.5±0.3  100.6±0.3  95.8±0.1
    rloo               107.5±0.3  100.6±0.3  95.8±0.1
    arm                107.2±0.1  98.4±0.3   96.7±0.3
    jsa                105.5±0.1  98.2±0.4   95.3±0.1
    jsa-rao-blackwell
    hybrid
    """,
    (
        "REINFORCE, NVIL, Concrete, REBAR and ARM: the paper quotes these figures from Yin & Zhou (2019).",
        VIMCO_NOTE,
    ),
)

TABLE_2 = Table(
    "table2",
    "Test NLL of generative models with categorical variables on {data}",
    "thresholded MNIST",
    # The variance of the gradients is measured at each of ten snapshots.
    "--data mnist-threshold --epochs 500 --switch-epoch 300 --batch-size 200 --followed-rows 1000 --snapshot-every 50 "
    + PROTOCOL,
    {"categorical": Column("NLL", "--model categorical", 20)},
    """
    vimco              79.3±0.5
    rloo               79.3±0.5
    st-gumbel-softmax  82.8±0.2
    arsm               78.7±0.2
    jsa                75.3±0.3
    jsa-stale-weight   75.3±0.3
    jsa-rao-blackwell
    hybrid
    """,
    (
        VIMCO_NOTE,
        "ST Gumbel-S.: the published program learns the temperature, from 1 on, and what it calls the NLL of this row "
        "has the logarithm of the mean of p(x|h), less the divergence of q from the prior, which is no NLL. Ours has "
        "the fixed temperature 1, and is an NLL as in the other rows.",
        "JSA: the published implementation compares every proposal with the initial state and never updates the "
        "running weight, so its chains do not leave the posterior invariant. That is the row with the stale weight; "
        "the other one is the method of the text.",
    ),
)

TABLE_3 = Table(
    "table3",
    "Test NLL of the lower half of {data} given the upper half",
    "binarized MNIST digits",
    f"--data mnist-salakhutdinov --epochs 200 --switch-epoch 60 --batch-size 100 --model structured {PROTOCOL}",
    {f"n{particles}": Column(f"n={particles}", "", particles) for particles in (5, 10, 20, 40, 80)},
    """
    rws                46.2±0.4  44.7±0.1  43.8±0.1  43.2±0.1  42.8±0.0
    vimco              46.3±0.1  46.2±0.2  46.2±0.2  46.1±0.2  46.0±0.1
    rloo               46.3±0.1  46.2±0.2  46.2±0.2  46.1±0.2  46.0±0.1
    jsa                45.2±0.4  44.2±0.1  43.2±0.2  42.9±0.1  42.6±0.1
    jsa-rao-blackwell
    hybrid
    """,
    (VIMCO_NOTE,),
)

TABLES: Mapping[str, Table] = {table.name: table for table in (TABLE_1, TABLE_2, TABLE_3)}


def table(name: str) -> Table:
    """Return a table by its name.

    >>> cell = table("table1").cell("linear", "jsa")
    >>> cell.config.epochs, cell.config.method.particles, cell.published
    (1000, 2, Published(nll=105.5, deviation=0.1))
    """
    if name not in TABLES:
        raise unknown_name("table", name, TABLES)
    return TABLES[name]


@cache
def config_of(flags: str) -> RunConfig:
    """Return the settings for flags of ``jsa train`` without importing the command line.

    >>> config_of("--model linear --epochs 3 --baseline none").method.baseline
    'none'
    """
    words = shlex.split(flags)
    given = {
        flag.removeprefix("--").replace("-", "_"): _value(text)
        for flag, text in zip(words[::2], words[1::2], strict=True)
    }
    model = str(given["model"])
    return with_settings(RunConfig(model=model, network=preset(model)), given)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


Budget = Literal["paper", "short"]

SHORTER = 10
"""The divisor of the epochs in the short budget."""


def within(config: RunConfig, budget: Budget) -> RunConfig:
    """Return the same experiment with a budget: the short one has a tenth of the epochs of each stage.

    >>> short = within(table("table1").cell("linear", "jsa").config, "short")
    >>> short.epochs, short.switch_epoch
    (100, 60)
    """
    return config if budget == "paper" else with_epochs(config, config.epochs // SHORTER)


def with_epochs(config: RunConfig, epochs: int) -> RunConfig:
    """Return the same experiment with another number of epochs: stage switch and snapshots keep their share of them.

    Learning-rate schedules adapt to the epochs by themselves.
    """
    share = epochs / config.epochs
    every = config.checkpoints.snapshot_every
    return replace(
        config,
        epochs=epochs,
        stages=replace(config.stages, switch_epoch=round(config.switch_epoch * share)),
        checkpoints=replace(config.checkpoints, snapshot_every=None if every is None else max(1, round(every * share))),
    )
