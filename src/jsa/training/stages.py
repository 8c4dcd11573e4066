"""When the chains begin to persist."""

from __future__ import annotations

from jsa.errors import UsageError
from jsa.estimators import Estimator, Stage
from jsa.runs.config import TrainConfig
from jsa.training.selection import LeadingEpochs


def check_rows_stay(config: TrainConfig, estimator: type[Estimator], rows_change: bool) -> None:
    """Refuses stage II on data whose rows change: a chain belongs to a row that stays."""
    if estimator.keeps_chains and rows_change and _may_reach_stage_two(config):
        raise UsageError(
            f"the rows of {config.data} are drawn anew every epoch, so that no chain can persist: choose a dataset "
            f"that stays, such as mnist-static, or train in stage I only with --switch-epoch {config.epochs}"
        )


def set_stage(config: TrainConfig, estimator: Estimator, epoch: int, leading: LeadingEpochs) -> int | None:
    """Puts an estimator with chains into the stage of this epoch; there is no way back to stage I.

    Returns:
        The number of the stage, none for an estimator without chains.
    """
    if estimator.stage is None:
        return None
    patience = config.stages.switch_patience
    if epoch > config.switch_epoch or (patience is not None and leading.validations_without_gain >= patience):
        if estimator.stage == Stage.FRESH:
            # What did not gain was stage I: the second one is given as much patience.
            leading.validations_without_gain = 0
        estimator.stage = Stage.PERSISTENT
    return int(estimator.stage)


def still_to_switch(config: TrainConfig, estimator: Estimator) -> bool:
    """Whether the run will go over to stage II when the validation NLL has not fallen for some time."""
    return estimator.stage == Stage.FRESH and config.stages.switch_patience is not None


def _may_reach_stage_two(config: TrainConfig) -> bool:
    return config.switch_epoch < config.epochs or config.stages.switch_patience is not None
