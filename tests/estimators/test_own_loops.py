"""What docs/how-to/optimize.md says of batch normalization, empty batches, LBFGS, AMP and accumulated gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from helpers.methods import NAMES, estimator_of, example_of
from helpers.row_noise import RowNoise
from helpers.small_models import Example, gradients, largest_difference, one_layer
from jsa import (
    JSA,
    Batch,
    BeliefNetwork,
    Bernoulli,
    LatentSpace,
    LatentVariableModel,
    Layer,
    Learner,
    Stage,
    check_model,
    exact_likelihood,
)
from jsa.errors import UsageError
from jsa.estimators import VIMCO


class Normalized(LatentVariableModel):
    """A model with a normalization in its encoder and one in its decoder."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.latent = LatentSpace.of(Layer("bernoulli", 4))
        self.encoder = nn.Sequential(nn.Linear(6, 8), encoder, nn.ReLU(), nn.Linear(8, 4))
        self.decoder = nn.Sequential(nn.Linear(4, 8), decoder, nn.ReLU(), nn.Linear(8, 6))

    def posterior(self, batch: Batch) -> Bernoulli:
        return Bernoulli(self.encoder(batch.x))

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        logits = self.decoder(h.flatten(0, 1)).unflatten(0, h.shape[:2])
        return Bernoulli(torch.zeros(4)).log_prob(h) + Bernoulli(logits).log_prob(batch.x)


def batches_of(normalization: nn.BatchNorm1d) -> int:
    """The number of batches that its running statistics are of."""
    assert normalization.num_batches_tracked is not None
    return int(normalization.num_batches_tracked)


ROWS = Batch(torch.eye(6).repeat(2, 1), torch.arange(12))


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_batch_normalization_is_found_while_it_mixes_rows(part: str) -> None:
    normalization = nn.BatchNorm1d(8)
    parts = [normalization, nn.Identity()]
    model = Normalized(*(parts if part == "encoder" else reversed(parts)))
    with pytest.raises(UsageError, match="batch normalization"):
        check_model(model, ROWS)
    assert batches_of(normalization) == 0
    last = Batch(ROWS.x[:1], torch.arange(1))
    if part == "encoder":  # The decoder sees several states of one row.
        with pytest.raises(ValueError, match="more than 1 value per channel"):
            VIMCO()(model, last)
    normalization.eval()
    counted = batches_of(normalization)
    check_model(model, ROWS)
    VIMCO()(model, last).loss.backward()
    assert batches_of(normalization) == counted


def test_other_normalizations_mix_no_rows() -> None:
    check_model(Normalized(nn.LayerNorm(8), nn.GroupNorm(2, 8)), ROWS)


def test_running_statistics_count_states_that_no_gradient_is_of() -> None:
    normalization = nn.BatchNorm1d(8)
    seen: list[int] = []
    normalization.register_forward_hook(lambda _, given, __: seen.append(len(given[0])))
    model = Normalized(nn.Identity(), normalization)
    JSA(model.latent, rows=12, particles=4)(model, ROWS).loss.backward()
    # The start and the proposals of each row, of which the gradient is of those only that its chain visited.
    assert seen[0] == 12 * (1 + 4)
    assert batches_of(normalization) == len(seen)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_of_no_rows_is_refused_and_of_one_is_not(name: str) -> None:
    example = example_of(name)
    estimator = estimator_of(name, example.model, example.batch)
    rows = torch.arange(1)
    with pytest.raises(UsageError, match=r"no rows.*: skip it"):
        estimator(example.model, example.batch.take(rows[:0]))
    if estimator.chains is not None:
        assert estimator.chains.visits == 0
    loss = estimator(example.model, example.batch.take(rows)).loss
    loss.backward()
    assert loss.isfinite()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in example.model.parameters())


def two_kinds() -> tuple[Tensor, Learner]:
    """Rows of two kinds, and a learner of them in double precision."""
    kinds = torch.tensor([[0.9, 0.9, 0.9, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.9, 0.9, 0.9]])
    x = torch.bernoulli(kinds.repeat(100, 1)).double()
    model = BeliefNetwork(Layer("bernoulli", 6), LatentSpace.of(Layer("bernoulli", 3)), prior="learned").double()
    return x, Learner(model, JSA(model.latent, rows=len(x)))


def test_lbfgs_minimizes_at_states_that_stay() -> None:
    x, learner = two_kinds()
    model, chains = learner.model, learner.estimator.chains
    assert chains is not None
    batch = Batch(x, torch.arange(len(x)))
    optimizer = torch.optim.LBFGS(learner.parameters(), max_iter=5, line_search_fn="strong_wolfe")
    for step in range(24):
        learner.stage = Stage.FRESH if step < 12 else Stage.PERSISTENT
        with torch.no_grad():
            learner(batch)
        h = chains.read(batch.row_numbers, x.dtype)[0].unsqueeze(0)
        losses: list[float] = []

        def closure(h: Tensor = h, losses: list[float] = losses) -> float:
            optimizer.zero_grad()
            loss = -batch.mean(model.log_joint(batch, h) + model.posterior(batch).log_prob(h))
            loss.backward()
            losses.append(loss.item())
            return losses[-1]

        optimizer.step(closure)
        assert closure() == closure() < losses[0], "no function that a line search can minimize"
    assert chains.passes == 24
    assert exact_likelihood(model, x).nll < 2.8 < 6 * 0.6931
    # Known to be wrong: each call of the closure moves the chains, and is another function.
    assert learner(batch).loss.item() != learner(batch).loss.item()
    assert chains.passes == 26


def test_a_step_that_a_gradient_scaler_skips_moves_the_chains_only() -> None:
    x, learner = two_kinds()
    learner, batch = learner.float(), Batch(x.float(), torch.arange(len(x)))
    chains = learner.estimator.chains
    assert chains is not None
    learner.stage = Stage.PERSISTENT
    optimizer = torch.optim.Adam(learner.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, backoff_factor=2.0**-100)
    changed = []
    for step in range(3):
        before = [parameter.clone() for parameter in learner.parameters()]
        with torch.autocast("cpu", torch.bfloat16):
            estimate = learner(batch)
        assert estimate.loss.dtype == estimate.log_weights.dtype == torch.float32
        optimizer.zero_grad()
        scaler.scale(1000 * estimate.loss).backward()
        scaler.step(optimizer)
        scaler.update()
        changed.append(any(not torch.equal(*pair) for pair in zip(before, learner.parameters(), strict=True)))
        assert chains.passes == step + 1
    assert changed == [False, True, True]
    assert all(parameter.isfinite().all() for parameter in learner.parameters())


@pytest.mark.parametrize("stage", Stage)
def test_gradients_of_parts_of_a_batch_add_up_to_that_of_the_batch(stage: Stage) -> None:
    example = Example(one_layer().model, Batch(torch.randint(2, (7, 4)).double(), torch.arange(7)))
    model, rows = example.model, len(example.batch)
    at_once, in_parts = (JSA(model.latent, rows, particles=4, stage=Stage.FRESH) for _ in range(2))
    if stage == Stage.PERSISTENT:
        at_once(model, example.batch)
        in_parts.load_state_dict(at_once.state_dict())
        at_once.stage = in_parts.stage = stage
    noise = RowNoise(rows)
    with noise.recorded():
        expected = gradients(model, at_once(model, example.batch).loss)
    summed = {name: torch.zeros_like(value) for name, value in expected.items()}
    for row in range(rows):
        with noise.of_row(row):
            loss = in_parts(model, example.batch.take(torch.tensor([row]))).loss
        for name, value in gradients(model, loss / rows).items():
            summed[name] += value
    assert largest_difference(summed, expected) < 1e-12
    numbers = example.batch.row_numbers
    assert torch.equal(in_parts.chains.read(numbers)[0], at_once.chains.read(numbers)[0])
    # Known to be wrong: the losses not divided.
    assert largest_difference({name: rows * value for name, value in summed.items()}, expected) > 0.1
