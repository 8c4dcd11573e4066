"""Learning rates as functions of the step."""

from __future__ import annotations

import math

from jsa.configuration import OptimiserConfig


def learning_rate(config: OptimiserConfig, step: int, steps: int) -> float:
    """The learning rate of a step, counted from 0, of a run of so many steps.

    Robbins-Monro is gamma_t = a / (t + t0)^kappa with a = gamma_0 t0^kappa: for 1/2 < kappa <= 1 the steps sum to
    infinity and their squares do not, which is what the convergence theorems of stochastic approximation ask for.

    >>> config = OptimiserConfig(learning_rate=0.1, schedule="robbins-monro", schedule_offset=10, schedule_exponent=1)
    >>> [round(learning_rate(config, step, steps=100), 9) for step in (0, 10, 90)]
    [0.1, 0.05, 0.01]
    """
    match config.schedule:
        case "constant":
            return config.learning_rate
        case "cosine":
            return config.learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps))
        case "robbins-monro":
            shrunk = config.schedule_offset / (step + config.schedule_offset)
            return config.learning_rate * shrunk**config.schedule_exponent
