"""Where the chains of JSA start and what it keeps of them, by stage and mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.scripted import script
from helpers.significance import assert_frequencies
from helpers.small_models import Example, enumerated, one_layer, state_numbers, two_layers
from jsa import JSA, Batch, PersistentEstimator, Stage
from jsa.errors import UsageError
from jsa.importance import effective_sample_size, log_mean_weight
from jsa.kernels import Trajectory
from jsa.learner import Learner
from jsa.testing.gradients import repeated


def cached(estimator: PersistentEstimator, rows: Tensor) -> Tensor:
    return estimator.chains.read(rows, torch.float64)[0]


def fill(estimator: PersistentEstimator, h: Tensor) -> None:
    """Puts the chains of all rows somewhere."""
    estimator.chains.write(torch.arange(len(h)), h, torch.ones(len(h), dtype=torch.bool))


def initial_states(estimator: PersistentEstimator, example: Example, batch: Batch) -> Tensor:
    return estimator.chains.initial_states(batch, example.model.posterior(batch))


def draws_only(example: Example, draws: Callable[[tuple[int, ...]], Tensor], batch: Batch | None = None) -> None:
    """Makes the inference model draw these states."""
    posterior = script(example.model.posterior(batch or example.batch), draws)
    vars(example.model)["posterior"] = lambda batch: posterior


def starts_of_a_step(estimator: PersistentEstimator, example: Example, batch: Batch) -> Tensor:
    """The first candidates of a step, whatever the stage."""
    move: Callable[..., Trajectory] = estimator.kernel.move
    trajectories: list[Trajectory] = []

    def recorded(*arguments: object, **named: object) -> Trajectory:
        trajectories.append(move(*arguments, **named))
        return trajectories[-1]

    vars(estimator.kernel)["move"] = recorded
    estimator(example.model, batch)
    return trajectories[0].candidates[0]


def test_stage_two_starts_from_the_cache_in_any_order(example: Example) -> None:
    batch = repeated(example.batch, 20)
    estimator = JSA(example.model.latent, len(batch), stage=Stage.PERSISTENT)
    h = example.model.posterior(batch).sample((1,))[0]
    fill(estimator, h)
    rows = torch.randperm(len(batch))[:17]
    assert torch.equal(initial_states(estimator, example, batch.take(rows)), h[rows])


@pytest.mark.parametrize(("stage", "visited"), [(Stage.FRESH, True), (Stage.PERSISTENT, False)])
def test_otherwise_a_chain_starts_from_the_inference_model(example: Example, stage: Stage, visited: bool) -> None:
    batch = repeated(example.batch, 4_000)
    estimator = JSA(example.model.latent, len(batch), stage=stage)
    if visited:
        # Stage I does not read what stands here.
        fill(estimator, enumerated(example.model, batch.take(torch.arange(1))).states[:1].expand(len(batch), -1))
    start = starts_of_a_step(estimator, example, batch)
    numbers = state_numbers(example.model, start).unflatten(0, (4_000, -1))
    inference = enumerated(example.model, example.batch).inference
    for row in range(len(example.batch)):
        assert_frequencies(numbers[:, row], inference[:, row])


def test_rows_of_a_batch_start_by_what_is_known_of_each() -> None:
    example = one_layer()
    batch = repeated(example.batch, 1_000)
    estimator = JSA(example.model.latent, len(batch), stage=Stage.PERSISTENT)
    known = torch.arange(0, len(batch), 2)
    state = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    estimator.chains.write(known, state.expand(len(known), -1), torch.ones(len(known), dtype=torch.bool))
    start = initial_states(estimator, example, batch)
    assert (start[known] == state).all()
    assert len(start[1::2].unique(dim=0)) > 1


@pytest.mark.parametrize("stage", Stage)
def test_training_writes_where_the_chains_stand(example: Example, stage: Stage) -> None:
    estimator = JSA(example.model.latent, rows=10, particles=1, stage=stage)
    rows = torch.tensor([7, 0, 3])
    estimate = estimator(example.model, Batch(example.batch.x, rows, example.batch.context))
    _, visited = estimator.chains.read(torch.arange(10))
    assert visited.nonzero().flatten().tolist() == [0, 3, 7]
    # The stored state is one of the two candidates as a whole: it has the log-weight of one of them.
    h = cached(estimator, rows)
    stored = example.model.log_joint(example.batch, h) - example.model.posterior(example.batch).log_prob(h)
    assert torch.isclose(stored, estimate.log_weights, atol=1e-12, rtol=0).any(0).all()


def test_layers_move_together() -> None:
    """From a cached state, a row ends at that state or at a proposal: never at the layers of both."""
    example = two_layers()
    batch = repeated(example.batch, 500)
    estimator = JSA(example.model.latent, len(batch), particles=1, stage=Stage.PERSISTENT)
    # Under these proposals both layers of a proposal differ from those of the cached state.
    fill(estimator, torch.zeros(len(batch), 4, dtype=torch.float64))
    proposal = torch.ones(1, len(batch), 4, dtype=torch.float64)
    draws_only(example, lambda shape: proposal, batch)
    estimator(example.model, batch)
    ends = cached(estimator, batch.row_numbers).unique(dim=0)
    assert ends.tolist() == [[0.0] * 4, [1.0] * 4]


def test_a_refused_row_keeps_its_state(example: Example) -> None:
    batch = repeated(example.batch, 200)
    estimator = JSA(example.model.latent, len(batch), particles=1, stage=Stage.PERSISTENT)
    fill(estimator, example.model.posterior(batch).sample((1,))[0])
    before = estimator.chains.read(batch.row_numbers)[0]
    estimator(example.model, batch)
    after = estimator.chains.read(batch.row_numbers)[0]
    stood_still = estimator.chains.age(batch.row_numbers) > 0
    assert 0 < stood_still.sum() < len(batch)
    assert torch.equal(after[stood_still], before[stood_still])


@pytest.mark.parametrize("stage", Stage)
def test_evaluation_mode_never_writes(example: Example, stage: Stage) -> None:
    estimator = JSA(example.model.latent, rows=3, stage=stage)
    estimator(example.model, example.batch)
    before, visits = cached(estimator, example.batch.row_numbers), estimator.chains.visits
    estimator.eval()
    for _ in range(20):
        estimator(example.model, example.batch)
    assert torch.equal(cached(estimator, example.batch.row_numbers), before)
    assert estimator.chains.visits == visits


def test_the_switch_takes_over_the_states_of_stage_one(example: Example) -> None:
    estimator = JSA(example.model.latent, rows=3, stage=Stage.FRESH)
    estimator(example.model, example.batch)
    estimator.stage = Stage.PERSISTENT
    assert torch.equal(initial_states(estimator, example, example.batch), cached(estimator, example.batch.row_numbers))


def test_chains_are_no_parameters(example: Example) -> None:
    estimator = JSA(example.model.latent, rows=3)
    assert list(estimator.state_dict()) == ["counting_share", "_extra_state"]
    assert not list(estimator.parameters())


def test_estimate_reports_the_proposals(example: Example) -> None:
    estimator = JSA(example.model.latent, rows=3, particles=4, stage=Stage.PERSISTENT)
    estimate = estimator(example.model, example.batch)
    assert estimate.log_weights.shape == (5, 3)
    # The initial state is no draw from q once the chains persist, so the bound is made of the proposals alone.
    proposed = estimate.log_weights[1:]
    assert torch.equal(estimate.objective, log_mean_weight(proposed).mean())
    assert torch.equal(estimate.diagnostics["effective_sample_size"], effective_sample_size(proposed).mean())
    assert 0 <= estimate.diagnostics["acceptance"] <= 1


def test_acceptance_is_the_share_of_moves() -> None:
    example = one_layer()
    estimator = JSA(example.model.latent, rows=3, particles=3, stage=Stage.PERSISTENT)
    exact = enumerated(example.model, example.batch)
    # From the heaviest state of each row the same state is the only one that is surely accepted.
    heaviest = exact.states[exact.log_weights.argmax(0)]
    fill(estimator, heaviest)
    draws_only(example, lambda shape: heaviest.expand(*shape, -1, -1))
    assert estimator(example.model, example.batch).diagnostics["acceptance"] == 1
    lightest = exact.states[exact.log_weights.argmin(0)]
    draws_only(example, lambda shape: lightest.expand(*shape, -1, -1))
    torch.manual_seed(0)
    assert estimator(example.model, example.batch).diagnostics["acceptance"] < 1


def test_frozen_chains_are_reported() -> None:
    """One row's chain is where nothing leads away from it; the others move."""
    example = one_layer()
    estimator = JSA(example.model.latent, rows=3, particles=2, stage=Stage.PERSISTENT)
    estimator(example.model, example.batch)
    log_joint = example.model.log_joint
    home = cached(estimator, torch.tensor([1]))[0]

    def only_home_in_row_one(batch: Batch, h: Tensor) -> Tensor:
        elsewhere = (h != home).any(-1) & (batch.index == 1)
        return torch.where(elsewhere, -torch.inf, log_joint(batch, h))

    vars(example.model)["log_joint"] = only_home_in_row_one
    draws_only(example, lambda shape: 1 - home.expand(2, 3, -1))
    shares = [float(estimator(example.model, example.batch).diagnostics["frozen_share"]) for _ in range(3)]
    assert shares[0] >= 1 / 3  # a whole pass without a move
    assert estimator.chains.age(torch.arange(3))[1] == 3


def test_chains_that_start_anew_are_never_frozen(example: Example) -> None:
    """In stage I a state is a new one at each visit, also where all moves from it are refused."""
    estimator = JSA(example.model.latent, rows=3, particles=1, stage=Stage.FRESH)
    for _ in range(20):
        diagnostics = estimator(example.model, example.batch).diagnostics
        assert diagnostics["chain_age"] == diagnostics["frozen_share"] == 0


def test_the_stage_is_part_of_the_state() -> None:
    latent = one_layer().model.latent
    estimator, again = JSA(latent, rows=3), JSA(latent, rows=3)
    estimator.stage = Stage.PERSISTENT
    learner = Learner(one_layer().model, again)
    learner.load_state_dict(Learner(one_layer().model, estimator).state_dict())
    assert again.stage is Stage.PERSISTENT


@pytest.mark.parametrize("stage", ["fresh", 1.5, 0, None])
def test_what_is_not_a_stage_is_refused_and_changes_nothing(stage: Any) -> None:
    estimator = JSA(one_layer().model.latent, rows=3)
    with pytest.raises(UsageError, match=r"the stage is Stage\.FRESH or Stage\.PERSISTENT, not"):
        estimator.stage = stage
    assert estimator.stage is Stage.FRESH
