"""The three tables of the paper: what is trained for each cell, and what the paper reports for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from jsa.errors import unknown_name
from jsa.models.presets import preset
from jsa.runs.config import MachineConfig, MethodConfig, OptimizerConfig, StageConfig, TrainConfig, ValidationConfig


@dataclass(frozen=True)
class Method:
    """A row of a table.

    Attributes:
        name: Its name in file names and on the command line.
        label: Its name in a table.
        estimator: The estimator.
        options: The options of the estimator but for the particles.
        particles: Whether it takes the number of particles of the experiment; otherwise it has its own default.
        published_as: The row of the paper that it is compared with; none for a method that the paper has not.
    """

    name: str
    label: str
    estimator: str
    options: MethodConfig = field(default_factory=MethodConfig)
    particles: bool = False
    published_as: str | None = None

    @property
    def own(self) -> bool:
        """Whether it is one of ours, below the rule of a table."""
        return self.published_as is None


REINFORCE = Method("reinforce", "REINFORCE", "reinforce", MethodConfig(baseline="none"), published_as="REINFORCE")
NVIL = Method("nvil", "NVIL", "nvil", published_as="NVIL")
RWS = Method("rws", "RWS", "rws", MethodConfig(sleep=0.0), True, "RWS")
CONCRETE = Method("concrete", "Concrete", "concrete", published_as="Concrete")
REBAR = Method("rebar", "REBAR", "rebar", published_as="REBAR")
VIMCO = Method("vimco", "VIMCO", "vimco", particles=True, published_as="VIMCO")
# The published implementation calls this VIMCO: its figures are compared with both.
RLOO = Method("rloo", "RLOO", "rloo", particles=True, published_as="VIMCO")
ARM = Method("arm", "ARM", "arm", published_as="ARM")
ARSM = Method("arsm", "ARSM", "arsm", published_as="ARSM")
STRAIGHT_THROUGH = Method(
    "st-gumbel-softmax", "ST Gumbel-S.", "st-gumbel-softmax", MethodConfig(temperature=1.0), True, "ST Gumbel-S."
)
JSA = Method("jsa", "JSA", "jsa", particles=True, published_as="JSA")
# The sampler of the published categorical experiment; see published.py, which this module does not import for torch's
# sake.
STALE_WEIGHT = Method("jsa-stale-weight", "JSA, stale weight", "jsa-stale-weight", particles=True, published_as="JSA")
RAO_BLACKWELL = Method("jsa-rao-blackwell", "JSA-Rao-Blackwell", "jsa-rao-blackwell", particles=True)
HYBRID = Method("hybrid", "Hybrid", "hybrid", particles=True)


Budget = Literal["paper", "short"]

SHORTER = 10
"""By what a short budget divides the epochs."""

SCREENING_SAMPLES, SAMPLES = 100, 1_000
LEADING_EPOCHS = 3
FOLLOWED_ROWS = 1_000
"""Training and test rows whose NLL makes the curves."""

SNAPSHOTS = 10
"""At how many epochs of a run the variance of its gradients is measured, where it is."""


def experiment(
    data: str, model: str, *, epochs: int, switch_epoch: int, batch_size: int, curves: bool, snapshots: bool
) -> TrainConfig:
    """An experiment of the paper, without its method.

    Args:
        data: The dataset.
        model: The model.
        epochs: Passes through the training rows.
        switch_epoch: The last epoch of stage I.
        batch_size: Rows a step.
        curves: Whether the paper shows its NLL against epochs and time.
        snapshots: Whether the paper shows the variance of its gradients.
    """
    return TrainConfig(
        data=data,
        model=model,
        network=preset(model),
        epochs=epochs,
        batch_size=batch_size,
        optimization=OptimizerConfig(optimizer="adam", learning_rate=3e-4),
        stages=StageConfig(switch_epoch=switch_epoch),
        validation=ValidationConfig(
            validate_every=5,
            validation_samples=SCREENING_SAMPLES,
            test_samples=SAMPLES,
            leading_epochs=LEADING_EPOCHS,
            followed_rows=FOLLOWED_ROWS if curves else None,
        ),
        machine=MachineConfig(threads=1, snapshot_every=epochs // SNAPSHOTS if snapshots else None),
    )


def within(config: TrainConfig, budget: Budget) -> TrainConfig:
    """The same experiment within a budget: a short one has a tenth of the epochs of each stage.

    >>> short = within(TrainConfig(epochs=1_000, stages=StageConfig(switch_epoch=600)), "short")
    >>> short.epochs, short.switch_epoch
    (100, 60)
    """
    if budget == "paper":
        return config
    return with_epochs(config, config.epochs // SHORTER)


def with_epochs(config: TrainConfig, epochs: int) -> TrainConfig:
    """The same experiment with other epochs: the stage switch and the snapshots come at the same share of them.

    Schedules of the learning rate follow the epochs by themselves.
    """
    share = epochs / config.epochs
    every = config.machine.snapshot_every
    return replace(
        config,
        epochs=epochs,
        stages=replace(config.stages, switch_epoch=round(config.switch_epoch * share)),
        machine=replace(config.machine, snapshot_every=None if every is None else max(1, round(every * share))),
    )


@dataclass(frozen=True)
class Published:
    """A figure of the paper: a test NLL and, where it gives one, the standard deviation over five seeds."""

    nll: float
    deviation: float | None = None


@dataclass(frozen=True)
class Column:
    """An experiment, for which a table compares methods.

    Attributes:
        name: Its name in file names and on the command line.
        label: Its name in a table.
        config: The experiment without its method.
        particles: The particles of the methods that take them.
        published: What the paper reports, by the name that it gives the method.
    """

    name: str
    label: str
    config: TrainConfig
    particles: int
    published: Mapping[str, Published]


@dataclass(frozen=True)
class Cell:
    """A method in an experiment."""

    table: str
    column: Column
    method: Method

    @property
    def config(self) -> TrainConfig:
        """The run at the paper's budget."""
        options = self.method.options
        if self.method.particles:
            options = replace(options, particles=self.column.particles)
        return replace(self.column.config, estimator=self.method.estimator, method=options)

    @property
    def published(self) -> Published | None:
        """What the paper reports."""
        name = self.method.published_as
        return None if name is None else self.column.published.get(name)


@dataclass(frozen=True)
class Table:
    """A table of the paper, with our own methods below its rule.

    Attributes:
        name: Its name on the command line.
        title: What its figures are, with a place for the data.
        data: What the paper calls its data.
        columns: Its columns.
        methods: Its rows.
        footnotes: What has to be known to read it.
    """

    name: str
    title: str
    data: str
    columns: tuple[Column, ...]
    methods: tuple[Method, ...]
    footnotes: tuple[str, ...] = field(default=())

    def cell(self, column: str, method: str) -> Cell:
        """The cell of a column and a method, by their names."""
        return next(cell for cell in self.cells() if (cell.column.name, cell.method.name) == (column, method))

    def cells(self) -> Iterator[Cell]:
        """Its cells, row by row."""
        for method in self.methods:
            for column in self.columns:
                yield Cell(self.name, column, method)


OWN = (RAO_BLACKWELL, HYBRID)


def _table_1() -> Table:
    reported = {
        "linear": ("Linear", _reported("170.1 108.0±0.3 113.1 107.2 107.7 107.5±0.3 107.2±0.1 105.5±0.1")),
        "nonlinear": ("Nonlinear", _reported("114.1 99.2±0.2 102.2 99.6 100.5 100.6±0.3 98.4±0.3 98.2±0.4")),
        "two-layers": ("Two layers", _reported("159.2 96.5±0.2 99.8 95.6 95.5 95.8±0.1 96.7±0.3 95.3±0.1")),
    }
    names = ("REINFORCE", "RWS", "NVIL", "Concrete", "REBAR", "VIMCO", "ARM", "JSA")
    columns = tuple(
        Column(
            model,
            label,
            experiment(
                "mnist-salakhutdinov",
                model,
                epochs=1_000,
                switch_epoch=600,
                batch_size=50,
                curves=True,
                snapshots=False,
            ),
            particles=2,
            published=dict(zip(names, figures, strict=True)),
        )
        for model, (label, figures) in reported.items()
    )
    rows = (
        *(REINFORCE, NVIL, RWS, CONCRETE, REBAR),
        *(VIMCO, RLOO, ARM, JSA, *OWN),
    )
    return Table(
        "table1",
        "Test NLL of generative models with Bernoulli variables on {data}",
        "binarized MNIST",
        columns,
        rows,
        (
            "REINFORCE, NVIL, Concrete, REBAR and ARM: the paper quotes these figures from Yin & Zhou (2019).",
            VIMCO_NOTE,
        ),
    )


def _table_2() -> Table:
    config = experiment(
        "mnist-threshold",
        "categorical",
        epochs=500,
        switch_epoch=300,
        batch_size=200,
        curves=True,
        snapshots=True,
    )
    published = dict(
        zip(("VIMCO", "ST Gumbel-S.", "ARSM", "JSA"), _reported("79.3±0.5 82.8±0.2 78.7±0.2 75.3±0.3"), strict=True)
    )
    column = Column("categorical", "NLL", config, 20, published)
    rows = (
        VIMCO,
        RLOO,
        STRAIGHT_THROUGH,
        ARSM,
        JSA,
        STALE_WEIGHT,
        *OWN,
    )
    return Table(
        "table2",
        "Test NLL of generative models with categorical variables on {data}",
        "thresholded MNIST",
        (column,),
        rows,
        (
            VIMCO_NOTE,
            "ST Gumbel-S.: the published program learns the temperature, from 1 on, and what it calls the NLL of this "
            "row has the logarithm of the mean of p(x|h), less the divergence of q from the prior, which is no NLL. "
            "Ours has the fixed temperature 1, and is an NLL as in the other rows.",
            "JSA: the published implementation compares every proposal with the initial state and never updates the "
            "running weight, so its chains do not leave the posterior invariant. That is the row with the stale "
            "weight; the other one is the method of the text.",
        ),
    )


def _table_3() -> Table:
    reported = {
        5: "46.2±0.4 46.3±0.1 45.2±0.4",
        10: "44.7±0.1 46.2±0.2 44.2±0.1",
        20: "43.8±0.1 46.2±0.2 43.2±0.2",
        40: "43.2±0.1 46.1±0.2 42.9±0.1",
        80: "42.8±0.0 46.0±0.1 42.6±0.1",
    }
    config = experiment(
        "mnist-salakhutdinov",
        "structured",
        epochs=200,
        switch_epoch=60,
        batch_size=100,
        curves=False,
        snapshots=False,
    )
    columns = tuple(
        Column(
            f"n{particles}",
            f"n={particles}",
            config,
            particles,
            dict(zip(("RWS", "VIMCO", "JSA"), _reported(figures), strict=True)),
        )
        for particles, figures in reported.items()
    )
    rows = (RWS, VIMCO, RLOO, JSA, *OWN)
    return Table(
        "table3",
        "Test NLL of the lower half of {data} given the upper half",
        "binarized MNIST digits",
        columns,
        rows,
        (VIMCO_NOTE,),
    )


def _reported(figures: str) -> list[Published]:
    return [Published(*map(float, figure.split("±"))) for figure in figures.split()]


VIMCO_NOTE = (
    "VIMCO: the published implementation of that row is the leave-one-out estimator of the single-sample bound, which "
    "is RLOO here, so both of our rows are compared with it."
)

TABLES: Mapping[str, Table] = {table.name: table for table in (_table_1(), _table_2(), _table_3())}


def table(name: str) -> Table:
    """A table by its name.

    >>> cell = table("table1").cell("linear", "reinforce")
    >>> cell.config.epochs, cell.published
    (1000, Published(nll=170.1, deviation=None))
    """
    if name not in TABLES:
        raise unknown_name("table", name, TABLES)
    return TABLES[name]
