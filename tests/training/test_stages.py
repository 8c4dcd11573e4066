"""When the chains begin to persist."""

import pytest
import torch

from jsa import JSA, Enumeration, LatentSpace, Layer, Stage
from jsa.data import DynamicBinarization, IndexedDataset
from jsa.errors import UsageError
from jsa.evaluation.rows import TensorRows
from jsa.training.config import StageConfig, TrainingConfig
from jsa.training.selection import LeadingEpochs
from jsa.training.stages import check_rows_stay, set_stage, still_to_switch

SPACE = LatentSpace.of(Layer("bernoulli", 2))


def stages_by_epoch(config: TrainingConfig, gains: list[bool]) -> list[int]:
    """The stage of each epoch, where every epoch is validated and brings a gain or not."""
    estimator, leading = JSA(SPACE, rows=3), LeadingEpochs()
    stages, nll = [], 100.0
    for epoch, gain in enumerate(gains, start=1):
        before = int(estimator.stage)
        assert set_stage(config, estimator, epoch, leading) is (estimator.stage != before)
        stages.append(int(estimator.stage))
        nll -= gain
        leading.record(epoch, nll if gain else nll + 1)
    return stages


def test_the_switch_at_an_epoch() -> None:
    config = TrainingConfig(epochs=5, stages=StageConfig(switch_epoch=2))
    assert stages_by_epoch(config, [True] * 5) == [1, 1, 2, 2, 2]


def test_stage_two_from_the_start() -> None:
    config = TrainingConfig(epochs=3, stages=StageConfig(switch_epoch=0))
    assert stages_by_epoch(config, [True] * 3) == [2, 2, 2]


def test_the_default_is_the_papers_share() -> None:
    assert TrainingConfig(epochs=1000).switch_epoch == 600


def test_the_switch_by_patience_is_final() -> None:
    config = TrainingConfig(epochs=8, stages=StageConfig(switch_patience=2))
    gains = [True, False, True, False, False, True, True, True]
    assert stages_by_epoch(config, gains) == [1, 1, 1, 1, 1, 2, 2, 2]


def test_patience_that_lasts_too_long_does_not_keep_the_second_stage_away() -> None:
    config = TrainingConfig(epochs=10, stages=StageConfig(switch_patience=8))
    assert stages_by_epoch(config, [False] * 10) == [1] * 6 + [2] * 4


def test_the_second_stage_is_given_patience_of_its_own() -> None:
    config = TrainingConfig(epochs=9, stages=StageConfig(switch_patience=2))
    estimator, leading = JSA(SPACE, rows=3), LeadingEpochs()
    leading.record(1, 100.0)
    for epoch in (2, 3):
        set_stage(config, estimator, epoch, leading)
        assert still_to_switch(config, estimator)
        leading.record(epoch, 101.0)
    assert leading.validations_without_gain == 2
    set_stage(config, estimator, 4, leading)
    assert leading.validations_without_gain == 0
    assert not still_to_switch(config, estimator)
    leading.record(4, 101.0)
    set_stage(config, estimator, 5, leading)
    assert leading.validations_without_gain == 1


def test_a_run_that_switches_at_an_epoch_may_stop_before() -> None:
    assert not still_to_switch(TrainingConfig(epochs=9, stages=StageConfig(switch_epoch=5)), JSA(SPACE, rows=3))
    assert not still_to_switch(TrainingConfig(epochs=9, stages=StageConfig(switch_patience=2)), Enumeration())


def test_patience_and_epoch_together_switch_at_the_earlier() -> None:
    config = TrainingConfig(epochs=4, stages=StageConfig(switch_epoch=2, switch_patience=3))
    assert stages_by_epoch(config, [True] * 4) == [1, 1, 2, 2]


def test_rows_that_change_are_refused_for_chains_in_stage_two_only() -> None:
    images = torch.zeros(3, 4, dtype=torch.uint8)
    drawn_anew = DynamicBinarization(images, seed=0)
    changing = TrainingConfig(epochs=4)
    by_rule = TrainingConfig(epochs=4, stages=StageConfig(switch_epoch=4, switch_patience=1))
    for config in (changing, by_rule):
        with pytest.raises(UsageError, match=r"no chain can persist.*--switch-epoch 4"):
            check_rows_stay(config, JSA, drawn_anew)
    check_rows_stay(changing, JSA, IndexedDataset(images))
    check_rows_stay(changing, JSA, TensorRows(images.float()))
    check_rows_stay(changing, Enumeration, drawn_anew)
    check_rows_stay(TrainingConfig(epochs=4, stages=StageConfig(switch_epoch=4)), JSA, drawn_anew)


def test_an_estimator_without_chains_has_no_stage() -> None:
    assert not set_stage(TrainingConfig(), Enumeration(), 20, LeadingEpochs())
    assert Stage(1) is Stage.FRESH
