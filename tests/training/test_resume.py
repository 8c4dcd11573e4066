"""A training that was stopped and continued ends as if it had never been stopped: to the bit."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack

import pytest
import torch
from torch.optim.swa_utils import AveragedModel

from helpers.small_runs import (
    ConfigChanges,
    Dying,
    Quiet,
    Stopping,
    differences,
    new_folder,
    patterned,
    small_config,
    trained,
    trained_in_pieces,
)
from jsa import BeliefNetwork, LatentSpace, Layer, Learner
from jsa.chains import ChainCache
from jsa.data.binarization import DynamicBinarization
from jsa.errors import CheckpointError
from jsa.estimators.registry import ESTIMATORS, build_estimator
from jsa.io.tensor_files import load_tensors, save_tensors
from jsa.runs.config import MachineConfig, MethodConfig, RunConfig
from jsa.training import state
from jsa.training.config import CheckpointConfig, OptimizerConfig, StageConfig, ValidationConfig
from jsa.training.loop import TrainingRows, train
from jsa.training.signals import InterruptedRunError, StopRequest
from jsa.training.state import State

EVERY_STEP = CheckpointConfig(checkpoint_seconds=0)
# Five steps an epoch and the switch behind the first: in stage I, at the switch, and in stage II.
STOPS = [3, 5, 6, 13]


def short(**changes: Unpack[ConfigChanges]) -> RunConfig:
    validation = ValidationConfig(validate_every=2, validation_samples=5)
    config = small_config(epochs=3, stages=StageConfig(switch_epoch=1), validation=validation)
    return dataclasses.replace(config, **changes)


def stopped_at(path: Path, config: RunConfig, step: int) -> None:
    stop = StopRequest()
    with pytest.raises(InterruptedRunError):
        trained(path, config, Stopping(stop, step), stop)


@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
def test_every_method_goes_on_to_the_bit(tmp_path: Path, estimator: str) -> None:
    method = MethodConfig(baseline="running" if estimator == "reinforce" else None)
    config = short(estimator=estimator, method=method)
    trained(tmp_path / "whole", config)
    trained_in_pieces(tmp_path / "pieces", config, STOPS)
    assert differences(tmp_path / "whole", tmp_path / "pieces") == []


OTHERS: dict[str, ConfigChanges] = {
    "cosine": {"optimization": OptimizerConfig(learning_rate=0.02, schedule="cosine")},
    "robbins-monro": {"optimization": OptimizerConfig(learning_rate=0.02, schedule="robbins-monro")},
    "sgd": {"optimization": OptimizerConfig(learning_rate=0.02, optimizer="sgd")},
    "average": {"optimization": OptimizerConfig(learning_rate=0.02, average_decay=0.9)},
    "random-scan": {"scan": "random"},
    "switch-by-patience": {
        "epochs": 8,
        "stages": StageConfig(switch_patience=1),
        "optimization": OptimizerConfig(learning_rate=0.5),
        "validation": ValidationConfig(validate_every=1, validation_samples=5),
    },
    "early-stop": {
        "epochs": 30,
        "optimization": OptimizerConfig(learning_rate=2.0),
        "validation": ValidationConfig(validate_every=1, validation_samples=5, stop_after=2),
    },
    "on disk": {"machine": MachineConfig(threads=1, chains_on_disk=True)},
    "leading-epochs": {
        "optimization": OptimizerConfig(learning_rate=0.5),
        "validation": ValidationConfig(validate_every=1, validation_samples=5, leading_epochs=2, followed_rows=7),
    },
    "snapshots": {"checkpoints": CheckpointConfig(snapshot_every=2)},
}


@pytest.mark.parametrize("name", OTHERS)
def test_every_setting_goes_on_to_the_bit(tmp_path: Path, name: str) -> None:
    config = short(**OTHERS[name])
    trained(tmp_path / "whole", config)
    trained_in_pieces(tmp_path / "pieces", config, STOPS)
    assert differences(tmp_path / "whole", tmp_path / "pieces") == []


def test_the_settings_do_what_their_names_say(tmp_path: Path) -> None:
    for name, key in (("early-stop", "epoch"), ("switch-by-patience", "stage")):
        watcher = Quiet()
        trained(tmp_path / name, short(**OTHERS[name]), watcher)
        found = [record[key] for record in watcher.records]
        assert len(found) < 30
        assert found[0] == 1
        assert found[-1] != 1


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_sudden_end_after_any_step_loses_nothing(tmp_path: Path, on_disk: bool) -> None:
    machine = MachineConfig(threads=1, chains_on_disk=on_disk)
    config = short(epochs=3, batch_size=40, checkpoints=EVERY_STEP, machine=machine)
    trained(tmp_path / "whole", config)
    trained_in_pieces(tmp_path / "pieces", config, list(range(2, 10)), Dying)
    assert differences(tmp_path / "whole", tmp_path / "pieces") == []


def test_checkpoints_change_nothing(tmp_path: Path) -> None:
    trained(tmp_path / "rarely", short())
    trained(tmp_path / "every-step", short(checkpoints=EVERY_STEP))
    assert differences(tmp_path / "rarely", tmp_path / "every-step") == []


def test_a_signal_in_a_validation_is_honored_before_its_end(tmp_path: Path) -> None:
    config = short()
    trained(tmp_path / "whole", config)
    stop = StopRequest()
    with pytest.raises(
        InterruptedRunError, match=r"stopped at step 10 \(epoch 2\) by SIGINT; continue with: jsa resume"
    ):
        trained(tmp_path / "pieces", config, Stopping(stop, 1, in_validation=True), stop)
    assert not (tmp_path / "pieces" / "best.safetensors").exists()
    trained(tmp_path / "pieces", config, seed=7)
    assert differences(tmp_path / "whole", tmp_path / "pieces") == []


def test_rows_that_change_every_epoch_are_those_of_their_epoch(tmp_path: Path) -> None:
    config = short(stages=StageConfig(switch_epoch=3))
    gray = torch.randint(0, 256, (100, 8), generator=torch.Generator().manual_seed(3), dtype=torch.uint8)

    def go_on(path: Path, seed: int, watcher: Quiet, stop: StopRequest | None = None) -> None:
        torch.manual_seed(seed)
        model = BeliefNetwork(Layer("bernoulli", 8), LatentSpace.of(Layer("bernoulli", 3)))
        estimator = build_estimator("jsa", model.latent, inputs=8, rows=100, options={})
        rows = DynamicBinarization(gray, seed=5)
        train(
            Learner(model, estimator),
            TrainingRows(rows, patterned(40, seed=2)),
            config,
            new_folder(path, config),
            [watcher],
            stop,
        )

    go_on(tmp_path / "whole", 0, Quiet())
    stop = StopRequest()
    with pytest.raises(InterruptedRunError):
        go_on(tmp_path / "pieces", 0, Stopping(stop, 8), stop)
    go_on(tmp_path / "pieces", 9, Quiet())
    assert differences(tmp_path / "whole", tmp_path / "pieces") == []


def forgetting(what: str) -> Callable[..., None]:
    """A resume that takes everything from the state but one thing."""
    original = State._take

    def take(self: State, *arguments: Any) -> None:
        original(self, *arguments)
        match what:
            case "means":
                self.means.sums.clear()
            case "position":
                self.progress.batches = 0
            case "best epoch":
                self.progress.leading.epochs = ()

    return take


def ignored(*arguments: object) -> None:
    """Do nothing, as a forgetful resume does."""


WRONG: dict[str, tuple[object, str, Callable[..., None]]] = {
    "random state": (state, "restore_random_states", ignored),
    "optimizer": (state, "restore_optimizer", ignored),
    "weights": (torch.nn.Module, "load_state_dict", ignored),
    "average": (AveragedModel, "load_state_dict", ignored),
    "chains": (ChainCache, "load_state_dict", ignored),
    **{what: (State, "_take", forgetting(what)) for what in ("means", "position", "best epoch")},
}


# So long steps make the validation NLL go up and down: of five epochs the third is the best.
RESTLESS = short(
    epochs=5,
    stages=StageConfig(switch_epoch=2),
    optimization=OptimizerConfig(learning_rate=2.0, average_decay=0.5),
    validation=ValidationConfig(validate_every=1, validation_samples=5),
)


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a whole run, and one that was stopped in its fourth epoch."""
    folder = tmp_path_factory.mktemp("halves")
    trained(folder / "whole", RESTLESS)
    stopped_at(folder / "stopped", RESTLESS, 18)
    return folder


def test_a_right_resume_differs_in_nothing(halves: Path, tmp_path: Path) -> None:
    shutil.copytree(halves / "stopped", tmp_path / "run")
    trained(tmp_path / "run", RESTLESS, seed=1)
    assert differences(halves / "whole", tmp_path / "run") == []


@pytest.mark.parametrize("forgotten", WRONG)
def test_a_resume_that_forgets_something_is_noticed(
    halves: Path, tmp_path: Path, forgotten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(halves / "stopped", tmp_path / "run")
    monkeypatch.setattr(*WRONG[forgotten])
    trained(tmp_path / "run", RESTLESS, seed=1)
    assert differences(halves / "whole", tmp_path / "run") != []


def test_a_state_of_other_settings_is_refused(tmp_path: Path) -> None:
    stopped_at(tmp_path / "run", short(), 7)
    with pytest.raises(CheckpointError, match=r"batch_size is 10 now and was 20 when"):
        trained(tmp_path / "run", short(batch_size=10))


def test_a_state_of_0_1_0_is_refused(tmp_path: Path) -> None:
    stopped_at(tmp_path / "run", short(), 7)
    path = tmp_path / "run" / "state.safetensors"
    tensors, notes = load_tensors(path)
    save_tensors(path, tensors, {**notes, "format": 3})
    with pytest.raises(CheckpointError, match=r"has format 3; this version of jsa reads 6: use jsa 0\.1\.0"):
        trained(tmp_path / "run", short())


def test_a_state_for_other_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_at(tmp_path / "run", short(), 7)
    monkeypatch.setattr("helpers.small_runs.patterned", lambda rows, seed: patterned(rows, seed + 1))
    with pytest.raises(
        CheckpointError, match=r"the training data is 100 rows with digest \w+ now and was 100 rows with digest"
    ):
        trained(tmp_path / "run", short())


def test_lost_metrics_are_noticed(tmp_path: Path) -> None:
    stopped_at(tmp_path / "run", short(), 7)
    (tmp_path / "run" / "metrics.jsonl").write_text("")
    with pytest.raises(CheckpointError, match=r"metrics.jsonl is shorter than the checkpoint says"):
        trained(tmp_path / "run", short())


def test_a_finished_training_is_left_as_it_is(tmp_path: Path) -> None:
    _, best, _ = trained(tmp_path / "run", short())
    before = (tmp_path / "run" / "state.safetensors").read_bytes()
    _, again, _ = trained(tmp_path / "run", short(), seed=4)
    assert again == best
    assert (tmp_path / "run" / "state.safetensors").read_bytes() == before
