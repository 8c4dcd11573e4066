"""Results as jobs leave them, without any training."""

from __future__ import annotations

import math

from jsa.experiments.jobs import Deviations, Job
from jsa.experiments.results import LogVariance, Point, Result, Score, Screened, VariancePoint, Versions


def score(nll: float, samples: int = 1_000) -> Score:
    return Score(nll, 0.3, 0.01, 0.02, 30.0, 2.0, samples, 10_000)


def result(
    column: str = "linear",
    method: str = "jsa",
    *,
    table: str = "table1",
    budget: str = "short",
    seed: int = 0,
    nll: float = 106.0,
    **deviations: object,
) -> Result:
    """A result with this test NLL, whose curves fall towards it."""
    job = Job(table, column, method, budget, seed, Deviations(**deviations))
    config = job.config
    chains = "jsa" in method or method == "hybrid"
    curve = tuple(
        Point(
            epoch,
            training_seconds=8.0 * epoch,
            processor_seconds=7.0 * epoch,
            decoder_evaluations=150_000 * epoch,
            valid_nll=nll + 40 * math.exp(-epoch / 10) + 1,
            train_nll=nll + 40 * math.exp(-epoch / 10) - 2,
            test_nll=nll + 40 * math.exp(-epoch / 10),
            objective=-nll - 10,
            acceptance=0.4 if chains else None,
            chain_age=2.0 if chains and epoch > config.switch_epoch else None,
            frozen_share=0.1 if chains and epoch > config.switch_epoch else None,
            stage=(1 if epoch <= config.switch_epoch else 2) if chains else None,
        )
        for epoch in range(5, config.epochs + 1, 5)
    )
    every = config.machine.snapshot_every
    variance = tuple(
        VariancePoint(epoch, LogVariance(-8.0, -8.1, -7.9), LogVariance(-5 + epoch / 50, -5.2, -4.8))
        for epoch in range(every or 1, config.epochs + 1 if every else 0, every or 1)
    )
    return Result(
        job=job,
        command=job.command,
        config=config,
        versions=(Versions("0.1.0", "0" * 40, "3.11.2", "2.13.0", "2.0.0", 1),),
        seconds=9.0 * config.epochs,
        training_seconds=8.0 * config.epochs,
        processor_seconds=7.0 * config.epochs,
        decoder_evaluations=150_000 * config.epochs,
        best_epoch=config.epochs,
        test=score(nll),
        leading=tuple(
            Screened(config.epochs - 5 * place, nll + 1 + place, score(nll + 0.1 + place)) for place in range(3)
        ),
        curve=curve,
        variance=variance,
    )
