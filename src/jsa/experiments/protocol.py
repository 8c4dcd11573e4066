"""How every experiment of the paper is run, and what a shorter budget changes of it. Nothing here needs torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from jsa.configuration import MachineConfig, OptimiserConfig, StageConfig, TrainConfig, ValidationConfig
from jsa.models.configuration import preset

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
        optimisation=OptimiserConfig(optimiser="adam", learning_rate=3e-4),
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
