"""Numbers that are not finite: named, never learned from, and skipped where that is asked for."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Literal, Unpack

import pytest
import torch
from torch import Tensor, nn

from helpers.small_runs import ConfigChanges, Quiet, differences, new_folder, patterned, small_config, small_model
from jsa import JSA, Batch, BeliefNetwork, Estimate, Estimator, LatentSpace, LatentVariableModel, Layer
from jsa.errors import NumericalError
from jsa.estimators.nvil import NVIL
from jsa.estimators.reinforce import Reinforce
from jsa.learner import Learner
from jsa.model import Posterior
from jsa.runs.build import Changes
from jsa.runs.config import RunConfig
from jsa.training.callbacks import Callback
from jsa.training.config import CheckpointConfig, OptimizerConfig
from jsa.training.finite_checks import refuse_non_finite_step
from jsa.training.loop import TrainingRows, train
from jsa.training.state import State

BAD_ROW = 17


class Trapped(BeliefNetwork):
    """A belief network with a row at which something is not finite."""

    def __init__(self, trap: str, bad_row: int | None = BAD_ROW) -> None:
        super().__init__(Layer("bernoulli", 8), LatentSpace.of(Layer("bernoulli", 3)), hidden=(6,))
        self.trap, self.bad_row = trap, bad_row
        self.scale = nn.Parameter(torch.zeros(()))

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        value = super().log_joint(batch, h)
        bad = torch.zeros_like(batch.row_numbers, dtype=torch.bool)
        if self.training and self.bad_row is not None:
            bad = batch.row_numbers == self.bad_row
        if self.trap == "log_joint":
            return torch.where(bad, torch.nan, value)
        # The value is finite, its gradient at zero is not.
        trapped = (self.scale * bad).square().sqrt() if bad.any() else self.scale * bad
        return value + trapped


def run_trapped(
    path: Path,
    trap: str,
    non_finite: Literal["stop", "skip"],
    bad_row: int | None = BAD_ROW,
    **changes: Unpack[ConfigChanges],
) -> tuple[Trapped, Quiet]:
    optimization = OptimizerConfig(learning_rate=0.02, non_finite=non_finite)
    config = dataclasses.replace(small_config(epochs=2, optimization=optimization), **changes)
    torch.manual_seed(0)
    model, rows, watcher = Trapped(trap, bad_row), patterned(100, seed=1), Quiet()
    train(
        Learner(model, JSA(model.latent, 100)),
        TrainingRows(rows, patterned(40, 2)),
        config,
        new_folder(path, config),
        [watcher],
    )
    return model, watcher


@pytest.mark.parametrize(
    ("trap", "sentence"),
    [
        ("log_joint", rf"of JSA: log_joint is nan at row {BAD_ROW}"),
        ("gradient", r"of JSA: the gradient of model.scale is not finite"),
    ],
)
@pytest.mark.parametrize(
    ("seconds", "kept"), [(0.0, r"the checkpoint of step \d is whole"), (30.0, "no checkpoint yet")]
)
def test_the_term_is_named_and_the_last_checkpoint_can_be_continued(
    tmp_path: Path, trap: str, sentence: str, seconds: float, kept: str
) -> None:
    checkpoints = CheckpointConfig(checkpoint_seconds=seconds)
    with pytest.raises(NumericalError, match=rf"{sentence}; .*{kept}") as first:
        run_trapped(tmp_path / "run", trap, "stop", checkpoints=checkpoints)
    # The same step fails again, and the run without such batches is the one that skipped them from the start.
    with pytest.raises(NumericalError) as second:
        run_trapped(tmp_path / "run", trap, "stop", checkpoints=checkpoints)
    assert str(first.value) == str(second.value)
    run_trapped(tmp_path / "run", trap, "skip", checkpoints=checkpoints)
    run_trapped(tmp_path / "skipped", trap, "skip")
    assert [name for name in differences(tmp_path / "run", tmp_path / "skipped") if name != "metrics"] == []


@pytest.mark.parametrize("trap", ["log_joint", "gradient"])
def test_nothing_is_learned_from_a_skipped_batch(tmp_path: Path, trap: str) -> None:
    # One batch an epoch of all rows: every step is skipped.
    model, watcher = run_trapped(tmp_path / "run", trap, "skip", batch_size=100)
    assert [record["skipped"] for record in watcher.records] == [1, 1]
    torch.manual_seed(0)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), Trapped(trap).parameters(), strict=True))
    # And of five batches an epoch, only the one with the row.
    _, watcher = run_trapped(tmp_path / "other", trap, "skip")
    assert [record["skipped"] for record in watcher.records] == [1, 1]


class AllBad(Trapped):
    """No batch has a density."""

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return super().log_joint(batch, h) + (torch.nan if self.training else 0)


def test_skipping_has_an_end(tmp_path: Path) -> None:
    config = small_config(batch_size=4, epochs=9, optimization=OptimizerConfig(non_finite="skip"))
    model, rows, folder = AllBad("gradient", None), patterned(100, seed=1), new_folder(tmp_path / "run", config)
    with pytest.raises(NumericalError, match=r"at step 101 .*100 batches in a row were skipped, and now log_joint is"):
        train(Learner(model, JSA(model.latent, 100)), TrainingRows(rows, patterned(40, 2)), config, folder)


def test_nothing_is_counted_where_nothing_can_be_skipped(tmp_path: Path) -> None:
    _, watcher = run_trapped(tmp_path / "run", "gradient", "stop", bad_row=None)
    assert all("skipped" not in record for record in watcher.records)


def estimate_of(loss: float, weights: list[float], gradient: list[float]) -> tuple[Estimate, dict[str, nn.Parameter]]:
    parameter = nn.Parameter(torch.zeros(len(gradient)))
    parameter.grad = torch.tensor(gradient)
    scalar = torch.tensor(loss)
    return Estimate(scalar, torch.tensor(0.0), torch.tensor([weights]), {}), {"phi": parameter}


BATCH = Batch(torch.zeros(2, 1), torch.tensor([4, 9]))


@pytest.mark.parametrize(
    ("loss", "weights", "gradient", "sentence"),
    [
        (math.nan, [0.0, 0.0], [0.0], "the loss is nan"),
        (math.inf, [0.0, -math.inf], [0.0], "probability zero to row 9"),
        (1.0, [0.0, math.inf], [0.0], "a log-weight is inf at row 9"),
        (1.0, [math.nan, 0.0], [0.0], "a log-weight is nan at row 4"),
        (1.0, [0.0, 0.0], [0.0, -math.inf], "the gradient of phi is not finite"),
        (1.0, [0.0, 0.0], [math.inf, -math.inf], "the gradient of phi is not finite"),
        (1.0, [0.0, 0.0], [1.0, 3e25], r"the gradient of phi is up to 3.0e\+25, whose square is not finite"),
    ],
)
def test_each_kind_has_its_sentence(loss: float, weights: list[float], gradient: list[float], sentence: str) -> None:
    estimate, parameters = estimate_of(loss, weights, gradient)
    with pytest.raises(NumericalError, match=sentence):
        refuse_non_finite_step(estimate, BATCH, parameters)


def test_an_impossible_state_among_possible_ones_is_named_with_its_row() -> None:
    estimate, parameters = estimate_of(math.inf, [0.0, 0.0], [0.0])
    weights = torch.tensor([[0.0, -math.inf], [0.0, 0.0]])
    with pytest.raises(NumericalError, match="the loss is inf, for states of probability zero were drawn at row 9"):
        refuse_non_finite_step(dataclasses.replace(estimate, log_weights=weights), BATCH, parameters)


@pytest.mark.parametrize("weights", [[0.0, 0.0], [-1e30, 1e30]])
def test_extreme_but_sound_numbers_pass(weights: list[float]) -> None:
    refuse_non_finite_step(*_with_batch(*estimate_of(-1e30, weights, [1e15, -1e-40])))


def _with_batch(
    estimate: Estimate, parameters: dict[str, nn.Parameter]
) -> tuple[Estimate, Batch, dict[str, nn.Parameter]]:
    return estimate, BATCH, parameters


class Spoiling(Callback):
    """Makes a weight infinite after the third step, as a step that is too long does."""

    def step(self, state: State) -> None:
        if state.progress.step == 3:
            with torch.no_grad():
                next(state.learner.parameters()).view(-1)[0] = math.inf


@pytest.mark.parametrize("non_finite", ["stop", "skip"])
def test_a_step_that_spoilt_the_weights_is_named_and_not_kept(
    tmp_path: Path, non_finite: Literal["stop", "skip"]
) -> None:
    config = small_config(optimization=OptimizerConfig(non_finite=non_finite))
    model, folder = small_model(), new_folder(tmp_path / "run", config)
    estimator, rows = JSA(model.latent, 100), patterned(100, seed=1)
    sentence = r"at step 4 .*the weights model\..* are not finite, because the step before .*no checkpoint yet"
    with pytest.raises(NumericalError, match=sentence):
        train(Learner(model, estimator), TrainingRows(rows, patterned(40, 2)), config, folder, [Spoiling()])
    assert not folder.state.exists()


class Impossible(LatentVariableModel):
    """A row has probability zero with some states, so that a bound is minus infinity and has no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.network = small_model()
        self.latent = self.network.latent

    def posterior(self, batch: Batch) -> Posterior:
        return self.network.posterior(batch)

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        value = self.network.log_joint(batch, h)
        return torch.where((batch.index == BAD_ROW) & (h[..., 0] == 1) & self.training, -torch.inf, value)


@pytest.mark.parametrize("method", ["nvil", "reinforce"])
def test_a_running_baseline_stays_finite_at_a_skipped_batch(tmp_path: Path, method: str) -> None:
    config = small_config(epochs=4, optimization=OptimizerConfig(non_finite="skip"))
    model, watcher = Impossible(), Quiet()
    estimator: Estimator = NVIL(model.latent, 8) if method == "nvil" else Reinforce(baseline="running")
    rows = TrainingRows(patterned(100, seed=1), patterned(40, 2))
    train(Learner(model, estimator), rows, config, new_folder(tmp_path / "run", config), [watcher])
    assert sum(int(str(record["skipped"])) for record in watcher.records) > 0
    buffers = dict(estimator.named_buffers())
    assert all(buffer.isfinite().all() for buffer in buffers.values())
    assert any(buffer.any() for buffer in buffers.values())


def test_the_two_ways_out_change_the_configuration() -> None:
    config = Changes(1e-5, "skip").applied(RunConfig())
    assert (config.optimization.learning_rate, config.optimization.non_finite) == (1e-5, "skip")
    assert dataclasses.replace(config, optimization=OptimizerConfig()) == RunConfig()
