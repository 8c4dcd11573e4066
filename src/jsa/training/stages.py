"""When the chains begin to persist."""

from __future__ import annotations

from jsa.errors import UsageError
from jsa.estimators import Estimator, Stage
from jsa.evaluation.rows import Changing, Rows
from jsa.training.config import TrainingConfig
from jsa.training.selection import LeadingEpochs


def check_rows_stay(config: TrainingConfig, estimator: type[Estimator], rows: Rows) -> None:
    """Refuse stage II on data whose rows change: a chain belongs to a row that stays."""
    rows_change = isinstance(rows, Changing) and rows.rows_change
    may_reach_stage_two = config.switch_epoch < config.epochs or config.stages.switch_patience is not None
    if estimator.keeps_chains and rows_change and may_reach_stage_two:
        raise UsageError(
            "the training rows are drawn anew every epoch, so that no chain can persist: choose a dataset that stays, "
            f"such as mnist-static, or train in stage I only with --switch-epoch {config.epochs}"
        )


def set_stage(config: TrainingConfig, estimator: Estimator, epoch: int, leading: LeadingEpochs) -> bool:
    """Put an estimator with chains into the stage of this epoch, and tell whether it switched.

    There is no way back to stage I.
    """
    if estimator.stage != Stage.FRESH:
        return False
    patience = config.stages.switch_patience
    if epoch <= config.switch_epoch and (patience is None or leading.validations_without_gain < patience):
        return False
    # What did not gain was stage I: stage II has as much patience.
    leading.validations_without_gain = 0
    estimator.stage = Stage.PERSISTENT
    return True


def still_to_switch(config: TrainingConfig, estimator: Estimator) -> bool:
    """Tell whether lost patience ends stage I rather than the training."""
    return estimator.stage == Stage.FRESH and config.stages.switch_patience is not None
