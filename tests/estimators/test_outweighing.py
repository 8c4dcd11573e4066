"""A state of the posterior outweighs a draw of q at least every other time; that of another row need not."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from helpers.sizes import sizes
from helpers.small_models import Example, enumerated
from jsa import JSA, Batch, BeliefNetwork, LatentSpace, Layer, Stage
from jsa.importance import cached_state_win_rate
from jsa.kernels import Block, Kernel, MetropolisHastings, Repeat
from jsa.model_calls import posterior_of
from jsa.testing.gradients import place_chains, repeated

LOG_WEIGHTS = st.lists(st.floats(-30, 30), min_size=2, max_size=6)


def exact_share(log_weights: Tensor, own: Tensor, proposed: Tensor) -> float:
    """The expected share for a state and a proposal with these probabilities over the states."""
    first, second = log_weights.unsqueeze(1), log_weights.unsqueeze(0)
    wins = ((first > second).double() + (first >= second).double()) / 2
    return float((own.unsqueeze(1) * proposed.unsqueeze(0) * wins).sum())


@given(LOG_WEIGHTS, st.integers(0, 10_000))
def test_it_is_one_half_or_more_at_any_posterior(log_weights: list[float], seed: int) -> None:
    weights = torch.tensor(log_weights, dtype=torch.float64)
    q = torch.rand(len(weights), dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 1e-3
    q = q / q.sum()
    posterior = (weights + q.log()).softmax(0)
    assert exact_share(weights, posterior, q) >= 0.5 - 1e-12
    assert exact_share(weights, q, q) == pytest.approx(0.5)


BLOCKS = Repeat(MetropolisHastings(Block(0.3)), 4)
"""No whole state among the proposals: a draw of q stands in."""


@pytest.mark.parametrize("copies", sizes(10_000, 500_000))
@pytest.mark.parametrize("kernel", [None, BLOCKS], ids=["whole states", "blocks"])
def test_it_is_what_enumeration_says(example: Example, copies: int, kernel: Kernel | None) -> None:
    if kernel is not None and posterior_of(example.model, example.batch).layers is None:
        pytest.skip("blocks need a LayeredPosterior")
    exact = enumerated(example.model, example.batch)
    expected = sum(
        exact_share(exact.log_weights[:, row], exact.posterior[:, row], exact.inference[:, row])
        for row in range(len(example.batch))
    ) / len(example.batch)
    batch = repeated(example.batch, copies)
    estimator = JSA(example.model.latent, rows=len(batch), kernel=kernel, stage=Stage.PERSISTENT)
    torch.manual_seed(1)
    with torch.no_grad():
        place_chains(estimator, example.model, example.batch, copies)
        found = float(estimator(example.model, batch).diagnostics["cached_state_win_rate"])
    # Six standard errors of a share.
    assert found == pytest.approx(expected, abs=6 * 0.5 / len(batch) ** 0.5)
    assert expected > 0.5


def share_with(numbers: str, seed: int, kernel: Kernel | None = None) -> float:
    """The share after some passes of stage II, with row numbers that are those of the data or those of the visits."""
    torch.manual_seed(seed)
    data = nn.functional.one_hot(torch.randint(4, (200, 6))).flatten(1).float()
    model = BeliefNetwork(Layer("bernoulli", 24), LatentSpace.of(Layer("bernoulli", 12)))
    estimator = JSA(model.latent, rows=200)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    shares = []
    for epoch in range(60):
        estimator.stage = Stage.FRESH if epoch < 40 else Stage.PERSISTENT
        if epoch == 40 and kernel is not None:
            estimator.kernel = kernel
        order = torch.randperm(200)
        for place in torch.arange(200).split(20):
            rows = order[place]
            index = rows if numbers == "of the data" else place
            estimate = estimator(model, Batch(data[rows], index))
            optimizer.zero_grad()
            estimate.loss.backward()
            optimizer.step()
            if epoch >= 40:
                shares.append(float(estimate.diagnostics["cached_state_win_rate"]))
    return sum(shares) / len(shares)


@pytest.mark.parametrize("kernel", [None, BLOCKS], ids=["whole states", "blocks"])
@pytest.mark.parametrize("seeds", sizes([3], range(4, 12)))
def test_it_tells_chains_that_are_given_to_other_rows(seeds: Iterable[int], kernel: Kernel | None) -> None:
    for seed in seeds:
        assert share_with("of the data", seed, kernel) > 0.5
        with pytest.warns(UserWarning, match="batches seem to carry wrong row numbers") as told:
            assert share_with("of the visits", seed, kernel) < 0.4
        assert len(told) == 1


def test_states_without_any_weight_count_half() -> None:
    assert cached_state_win_rate(torch.full((3, 2), -torch.inf)) == 0.5
