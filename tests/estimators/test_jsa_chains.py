"""The chains of stage II, with the parameters held still: every row's chain comes to the row's posterior."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import jsa.importance
from helpers.path_laws import transition_matrix
from helpers.significance import FAILURE_RATE, assert_frequencies, frequency_p_value
from helpers.sizes import sizes
from helpers.small_models import Enumerated, Example, state_numbers
from jsa import JSA, Stage
from jsa.experiments.worker import stale_weight_path
from jsa.testing.gradients import repeated

COPIES = pytest.mark.parametrize("copies", sizes(2_000, 40_000))
PARTICLES = 4


def visits_needed(exact: Enumerated) -> int:
    """So many visits that the start is forgotten: what remains of it is far below what the frequencies can show."""
    slowest = max(
        float(torch.linalg.eigvals(transition_matrix(inference, log_weights)).abs().sort().values[-2])
        for inference, log_weights in zip(exact.inference.T, exact.log_weights.T, strict=True)
    )
    return next(visits for visits in range(1, 1000) if slowest ** (PARTICLES * visits) < 1e-4)


def states_after_visits(example: Example, visits: int, copies: int) -> Tensor:
    """The numbers of the cached states, a column for each of the few rows; all chains are independent."""
    batch = repeated(example.batch, copies)
    estimator = JSA(example.model.latent, len(batch), PARTICLES, Stage.PERSISTENT)
    for _ in range(visits):
        order = torch.randperm(len(batch))
        # In two halves and another order each time: a chain must be found again under its row number.
        for rows in order.chunk(2):
            estimator(example.model, batch.take(rows))
    states, visited = estimator.chains.read(batch.row_numbers, torch.float64)
    assert visited.all()
    return state_numbers(example.model, states).unflatten(0, (copies, -1))


@COPIES
@torch.no_grad()
def test_chains_come_to_the_posterior_of_their_row(example: Example, copies: int) -> None:
    numbers = states_after_visits(example, visits_needed(example.exact), copies)
    for row in range(len(example.batch)):
        assert_frequencies(numbers[:, row], example.exact.posterior[:, row])


@COPIES
@torch.no_grad()
def test_stale_weights_lead_elsewhere(example: Example, copies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The power of the test above."""
    exact = example.exact
    monkeypatch.setattr(jsa.importance, "independence_path", stale_weight_path)
    numbers = states_after_visits(example, visits_needed(exact), copies)
    values = [frequency_p_value(numbers[:, row], exact.posterior[:, row]) for row in range(len(example.batch))]
    assert min(values) < FAILURE_RATE
