"""Results as jobs leave them, without any training."""

from __future__ import annotations

from jsa.evaluation.results import Likelihood, LogVariance
from jsa.experiments.jobs import Deviations, Job
from jsa.experiments.results import Point, Result, Screened, VariancePoint
from jsa.io.provenance import Provenance

COMMIT = "0123456789abcdef0123456789abcdef01234567"
VERSIONS = Provenance("0.1.0", COMMIT, "3.11", "2.6", "2.0", threads=1)


def score(nll: float) -> Likelihood:
    return Likelihood(nll, 0.31, 0.012, 0.004, 85.2, 4.1, 1_000, 10_000)


def result(
    method: str = "jsa",
    nll: float = 105.0,
    *,
    table: str = "table1",
    column: str = "linear",
    seed: int = 0,
    budget: str = "paper",
    deviations: Deviations | None = None,
    chains: bool = False,
    variance: bool = False,
    points: int = 20,
) -> Result:
    """A result whose curve falls from a huge start to its figure."""
    job = Job(table, column, method, budget, seed, deviations or Deviations())
    config = job.config
    curve = []
    for number in range(1, points + 1):
        epoch = number * config.epochs // points
        here = nll + 300 / number**2
        health = (0.5 / number, 0.1 * number, 0.01 * number, 1 if epoch <= config.switch_epoch else 2)
        cost = (21.0 * number**2, 20.0 * number**2, 10**6 * number)
        curve.append(Point(epoch, *cost, here, here - 1, here + 1, -here, *(health if chains else ())))
    noise = LogVariance(1.0, 0.8, 1.2)
    return Result(
        job=job,
        command=job.command,
        config=config,
        versions=(VERSIONS,),
        seconds=9_000.0,
        training_seconds=8_400.0,
        processor_seconds=8_000.0,
        decoder_evaluations=20_000_000,
        best_epoch=config.epochs,
        test=score(nll),
        leading=(Screened(config.epochs, nll + 0.2, score(nll + 0.1)),),
        curve=tuple(curve),
        variance=tuple(VariancePoint(epoch, noise, noise) for epoch in (100, 200, 300)) if variance else (),
    )
