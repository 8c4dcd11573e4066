"""Chains, stage and clock go with the state_dict, however it is saved, and nothing is taken over in silence."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from helpers.small_models import Example, one_layer
from jsa import JSA, Batch, ChainCache, LatentSpace, Layer, Learner, Stage
from jsa.chains import cache
from jsa.chains.storage import MemoryStorage
from jsa.errors import CheckpointError, UsageError
from jsa.estimators import VIMCO, Hybrid
from jsa.testing.gradients import repeated

CHAINS = "estimator._extra_state"
State = dict[str, Tensor]


def learner_of(example: Example, rows: int = 60, **options: Any) -> Learner:
    return Learner(copy.deepcopy(example.model), JSA(example.model.latent, rows, **options))


def train(learner: Learner, batch: Batch, steps: int = 6) -> None:
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.05)
    for step in range(steps):
        torch.manual_seed(step)
        optimizer.zero_grad()
        learner(batch.take(torch.randperm(len(batch))[:20])).loss.backward()
        optimizer.step()


def standing(chains: ChainCache) -> tuple[object, ...]:
    states, visited = chains.read(torch.arange(chains.rows))
    return states.tolist(), visited.tolist(), chains.age(torch.arange(chains.rows)).tolist(), chains.visits


def by_torch(state: State, path: Path) -> State:
    torch.save(state, path)
    loaded: State = torch.load(path, weights_only=True)
    return loaded


def by_safetensors(state: State, path: Path) -> State:
    safetensors.torch.save_file(state, path)
    return safetensors.torch.load_file(path)


@pytest.mark.parametrize("saved", [by_torch, by_safetensors])
@pytest.mark.parametrize("stage", [None, *Stage])
def test_a_state_dict_brings_everything_back(
    saved: Callable[[State, Path], State], stage: Stage | None, tmp_path: Path
) -> None:
    example = one_layer()
    batch = repeated(example.batch, 20)
    learner = learner_of(example)
    if stage is not None:
        learner.stage = stage
    train(learner, batch)
    state = saved(learner.state_dict(), tmp_path / "state")
    assert state[CHAINS].dtype == torch.uint8
    assert state[CHAINS].ndim == 1
    other = learner_of(example)
    other.load_state_dict(state)
    assert other.stage == (stage or Stage.FRESH)
    assert standing(other.estimator.chains) == standing(learner.estimator.chains)  # type: ignore[arg-type]
    # It goes on as if it had not stopped.
    for each in (learner, other):
        train(each, batch)
    assert standing(other.estimator.chains) == standing(learner.estimator.chains)  # type: ignore[arg-type]
    assert all(map(torch.equal, learner.model.parameters(), other.model.parameters()))


def test_without_its_chains_a_learner_goes_on_differently() -> None:
    """What the test above would miss if it looked at the weights alone."""
    example = one_layer()
    batch = repeated(example.batch, 20)
    learner, other = learner_of(example, stage=2), learner_of(example, stage=2)
    train(learner, batch)
    other.model.load_state_dict(learner.model.state_dict())
    for each in (learner, other):
        train(each, batch)
    assert not all(map(torch.equal, learner.model.parameters(), other.model.parameters()))


def test_a_state_without_chains_loads_with_one_warning() -> None:
    learner = learner_of(one_layer(), stage=2)
    state = learner.state_dict()
    del state[CHAINS]
    with pytest.warns(UserWarning, match=r"this state_dict has no chains \(estimator\._extra_state\)") as told:
        learner.load_state_dict(state)
    assert len(told) == 1


def test_methods_without_chains_have_none_to_miss() -> None:
    example = one_layer()
    learner = Learner(example.model, VIMCO())
    assert not [name for name in learner.state_dict() if name.endswith("_extra_state")]
    learner.load_state_dict(learner.state_dict())


@pytest.mark.parametrize(
    ("latent", "rows", "sentence"),
    [
        (None, 61, "rows 61, but here rows is 60"),
        (LatentSpace.of(Layer("bernoulli", 4)), 60, "layers"),
        (LatentSpace.of(Layer("categorical", 1, classes=3)), 60, "layers"),
    ],
)
def test_chains_of_other_rows_or_another_space_are_refused(
    latent: LatentSpace | None, rows: int, sentence: str
) -> None:
    example = one_layer()
    other = JSA(latent or example.model.latent, rows)
    with pytest.raises(CheckpointError, match=sentence):
        JSA(example.model.latent, rows=60).load_state_dict(other.state_dict())


def test_chains_of_another_process_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    estimator = JSA(one_layer().model.latent, rows=60)
    state = estimator.state_dict()
    monkeypatch.setattr(cache, "processes", lambda: (1, 4))
    with pytest.raises(CheckpointError, match="are those of process 0 of 1, this is process 1 of 4: save and load"):
        estimator.load_state_dict(state)


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-1], lambda content: content[3:], lambda content: content[:0]]
)
def test_damaged_chains_are_refused(damage: Callable[[Tensor], Tensor]) -> None:
    estimator = JSA(one_layer().model.latent, rows=60)
    state = estimator.state_dict()
    with pytest.raises(CheckpointError):
        estimator.load_state_dict({**state, "_extra_state": damage(state["_extra_state"])})


def test_averaged_weights_hold_no_chains() -> None:
    average = AveragedModel(learner_of(one_layer()).model)
    assert not [name for name in average.state_dict() if name.endswith("_extra_state")]


def test_stage_two_without_chains_warns_once() -> None:
    example = one_layer()
    learner = learner_of(example, rows=3, stage=2)
    with pytest.warns(UserWarning, match="stage II begins without chains") as told:
        learner(example.batch)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner(example.batch)


def test_stage_two_with_chains_does_not_warn() -> None:
    example = one_layer()
    learner = learner_of(example, rows=3)
    learner(example.batch)
    learner.stage = 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner(example.batch)


def test_the_stage_switches_itself_after_so_many_passes() -> None:
    example = one_layer()
    batch = repeated(example.batch, 20)
    learner = learner_of(example, switch_after=2.5)
    stages = []
    for _ in range(10):
        stages.append(learner.stage)
        learner(batch.take(torch.arange(30)))
    assert stages == [Stage.FRESH] * 5 + [Stage.PERSISTENT] * 5


def test_passes_are_those_of_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    example = one_layer()
    batch = repeated(example.batch, 20)
    monkeypatch.setattr(cache, "processes", lambda: (3, 4))
    learner = learner_of(example, switch_after=2)
    for _ in range(2):
        assert learner.stage == Stage.FRESH
        learner(batch.take(torch.arange(15)))
    # Two steps of 15 rows: half a pass here, and as much in three other processes.
    assert learner.estimator.chains is not None
    assert learner.estimator.chains.passes == 2
    assert learner.stage == Stage.PERSISTENT


def test_the_clock_of_the_switch_is_saved() -> None:
    example = one_layer()
    learner, other = learner_of(example, rows=3, switch_after=2), learner_of(example, rows=3, switch_after=2)
    for _ in range(2):
        learner(example.batch)
    other.load_state_dict(learner.state_dict())
    assert other.stage == Stage.PERSISTENT


@pytest.mark.parametrize("switch_after", [0.5, None])
def test_an_assigned_stage_overrides_and_is_saved(switch_after: float | None) -> None:
    example = one_layer()
    learner, other = learner_of(example, rows=3, switch_after=switch_after), learner_of(example, rows=3)
    learner.stage = Stage.PERSISTENT
    other.load_state_dict(learner.state_dict())
    assert other.stage == Stage.PERSISTENT
    other.stage = 1
    for _ in range(3):
        other(example.batch)
    assert int(other.stage) == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"stage": 2, "switch_after": 3}, "give either stage or switch_after"),
        ({"switch_after": -1}, "switch-after must be 0 or more"),
        ({"switch_after": float("nan")}, "switch-after must be 0 or more"),
        ({"stage": 3}, r"Stage\.FRESH or Stage\.PERSISTENT, not 3"),
    ],
)
def test_wrong_stages_are_refused(options: Mapping[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        learner_of(one_layer(), **options)


def test_evaluation_neither_reads_nor_writes_and_needs_no_numbers() -> None:
    example = one_layer()
    batch = repeated(example.batch, 20)
    learner = learner_of(example, stage=2)
    train(learner, batch)
    chains = learner.estimator.chains
    assert chains is not None
    before = standing(chains)
    learner.eval()
    found = []
    for _ in range(2):
        torch.manual_seed(0)
        with torch.no_grad():
            found.append(learner(Batch(batch.x)).log_weights)
        # If chains were read, others would give another result.
        chains.forget(torch.arange(60))
    assert torch.equal(*found)
    assert standing(chains)[3] == before[3]


@pytest.mark.parametrize("stage", Stage)
def test_a_training_step_without_numbers_says_what_to_do(stage: Stage) -> None:
    example = one_layer()
    learner = learner_of(example, rows=3, stage=stage)
    with pytest.raises(UsageError, match=r"has no row numbers.*jsa\.numbered\(dataset\) and Batch\.collate"):
        learner(Batch(example.batch.x))


@pytest.mark.parametrize(
    "change",
    [
        lambda learner: learner.half(),
        lambda learner: learner.double(),
        lambda learner: learner.to(torch.bfloat16),
        lambda learner: learner.to("cpu"),
        lambda learner: copy.deepcopy(learner),
        lambda learner: learner.to_empty(device="cpu"),
        lambda learner: learner.to("meta"),
    ],
    ids=["half", "double", "bfloat16", "cpu", "deepcopy", "to_empty", "meta"],
)
def test_conversions_of_a_module_leave_the_chains_as_they_are(change: Callable[[Learner], Learner]) -> None:
    example = one_layer()
    learner = learner_of(example)
    train(learner, repeated(example.batch, 20))
    assert learner.estimator.chains is not None
    before = standing(learner.estimator.chains)
    after = change(learner).estimator.chains
    assert after is not None
    assert standing(after) == before


@pytest.mark.parametrize(("device", "followed"), [(None, ["mps"]), ("cpu", [])])
def test_chains_follow_the_module_unless_they_were_given_a_device(
    device: str | None, followed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    moves: list[str] = []
    monkeypatch.setattr(MemoryStorage, "to", lambda self, device: moves.append(device.type))
    estimator = Hybrid(one_layer().model.latent, rows=3, device=device)
    estimator.chains.to(torch.device("mps"))
    assert moves == followed
