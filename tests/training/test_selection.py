"""The epochs that lead, their weights, and what else a training keeps on its way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import torch

from helpers.small_runs import patterned, small_config, small_model, trained
from jsa.data import Splits
from jsa.errors import CheckpointError, UsageError
from jsa.evaluation.likelihood import Likelihood, likelihood
from jsa.evaluation.rows import Rows, Subset
from jsa.io.tensor_files import load_tensors
from jsa.runs.config import MachineConfig, RunConfig
from jsa.runs.final_test import Scoring
from jsa.runs.folder import RunFolder
from jsa.runs.rows import RunRows
from jsa.runs.scores import read_rescored, read_scores
from jsa.training.config import CheckpointConfig, OptimizerConfig, ValidationConfig
from jsa.training.signals import StopRequest, StopRequestedError
from jsa.training.weights import load_weights


def unsteady(leading_epochs: int = 1, test_samples: int = 1000, followed_rows: int | None = None) -> RunConfig:
    """Steps so long, and validations so noisy, that the NLL goes up and down."""
    return small_config(
        epochs=12,
        optimization=OptimizerConfig(learning_rate=0.3),
        validation=ValidationConfig(
            validate_every=1,
            validation_samples=3,
            leading_epochs=leading_epochs,
            test_samples=test_samples,
            followed_rows=followed_rows,
        ),
    )


def splits() -> Splits:
    return Splits("patterned", patterned(100, 1), patterned(40, 2), patterned(30, 3))


def epochs_kept(folder: RunFolder) -> set[int]:
    return {int(path.stem.removeprefix("epoch-")) for path in folder.leading.iterdir()}


def test_the_weights_of_the_leading_epochs_are_kept_and_no_others(tmp_path: Path) -> None:
    model, leading, _ = trained(tmp_path, unsteady(leading_epochs=3))
    folder = RunFolder(tmp_path)
    by_nll = sorted((record["valid_nll"], record["epoch"]) for record in folder.read_metrics())
    assert [(found.nll, found.epoch) for found in leading.epochs] == by_nll[:3]
    assert epochs_kept(folder) == {found.epoch for found in leading.epochs}
    for found in leading.epochs:
        notes = load_weights(model, folder.leading_epoch(found.epoch))
        assert notes["epoch"] == found.epoch
        assert likelihood(model, patterned(40, 2), 3).nll == pytest.approx(found.nll)


def test_the_best_of_the_rescored_epochs_is_tested(tmp_path: Path) -> None:
    config = replace(unsteady(leading_epochs=3, test_samples=400), seed=4)
    model, leading, _ = trained(tmp_path, config)
    folder = RunFolder(tmp_path)
    scores = Scoring(config, RunRows.of_splits(splits()), model, folder, StopRequest()).score(leading)
    rescored = read_rescored(folder)
    for epoch, found in rescored.items():
        load_weights(model, folder.leading_epoch(epoch))
        assert found == likelihood(model, splits().valid, 400, seed=4)
    assert set(rescored) == {found.epoch for found in leading.epochs}
    assert (scores.best.nll, scores.best.epoch) == min((found.nll, epoch) for epoch, found in rescored.items())
    assert scores.validation_samples == 400
    load_weights(model, folder.best)
    assert scores.test == likelihood(model, splits().test, 400, seed=4)
    assert read_scores(folder) == scores
    # Three samples are so few that the screening is wrong about the order: the test has something to find.
    assert scores.best.epoch != leading.best.epoch


def test_what_was_rescored_before_a_stop_is_not_scored_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = unsteady(leading_epochs=3)
    model, leading, _ = trained(tmp_path, config)
    folder, stop = RunFolder(tmp_path), StopRequest()
    scoring = Scoring(config, RunRows.of_splits(splits()), model, folder, stop)
    evaluate = scoring._likelihood
    labels: list[str] = []

    def stopping(rows: Rows, label: str) -> Likelihood:
        labels.append(label)
        if len(labels) == 2:
            raise StopRequestedError
        return evaluate(rows, label)

    monkeypatch.setattr(scoring, "_likelihood", stopping)
    with pytest.raises(StopRequestedError):
        scoring.score(leading)
    scoring.score(leading)
    again = [f"epoch {found.epoch} again" for found in leading.epochs]
    assert labels == [again[0], again[1], again[1], again[2], "test"]


def test_a_damaged_file_of_scores_is_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.rescored.write_text('{"5": {"nll": 3}}')
    with pytest.raises(CheckpointError, match=r"rescored.json is damaged .* delete it"):
        read_rescored(folder)
    folder.evaluation.write_text("{}")
    with pytest.raises(CheckpointError, match=r"evaluation.json is damaged .* delete it"):
        read_scores(folder)


def test_followed_rows_are_written_down_and_change_nothing(tmp_path: Path) -> None:
    _, leading, _ = trained(tmp_path / "with", unsteady(followed_rows=20))
    _, same, _ = trained(tmp_path / "without", unsteady())
    assert leading == same
    records = list(RunFolder(tmp_path / "with").read_metrics())
    model = small_model()
    load_weights(model, RunFolder(tmp_path / "with").last)
    assert records[-1]["train_nll"] == likelihood(model, Subset.spread(patterned(100, 1), 20), 1000).nll
    assert records[-1]["test_nll"] == likelihood(model, Subset.spread(patterned(30, 3), 9), 1000).nll


def test_snapshots_are_the_states_of_their_epochs(tmp_path: Path) -> None:
    trained(tmp_path, small_config(checkpoints=CheckpointConfig(snapshot_every=2)))
    folder = RunFolder(tmp_path)
    assert sorted(path.name for path in folder.snapshots.iterdir()) == [f"epoch-{n}.safetensors" for n in (2, 4, 6)]
    for epoch in (2, 4, 6):
        _, notes = load_tensors(folder.snapshot(epoch))
        assert json.loads(cast("dict[str, str]", notes["progress"])["ended"])["epoch"] == epoch
    weights, _ = load_tensors(folder.last)
    state, _ = load_tensors(folder.snapshot(6))
    assert all(torch.equal(state[f"learner:model.{name}"], tensor) for name, tensor in weights.items())


def test_training_seconds_leave_out_the_validations(tmp_path: Path) -> None:
    trained(tmp_path, small_config(validation=ValidationConfig(validate_every=1, validation_samples=20_000)))
    last = list(RunFolder(tmp_path).read_metrics())[-1]
    assert 0 < last["training_seconds"] < 0.9 * last["seconds"]


def test_snapshots_and_chains_on_disk_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="leave out one of the two"):
        RunConfig(checkpoints=CheckpointConfig(snapshot_every=1), machine=MachineConfig(chains_on_disk=True))
