"""Likelihoods of rows with weights are weighted means, and their errors are those of weighted means."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from scipy import stats
from torch import Tensor

from helpers.significance import FAILURE_RATE
from helpers.small_models import Example, RowsInMemory, one_layer
from jsa import Batch, TensorRows, annealed_likelihood, exact_likelihood, likelihood, multi_sample_bounds
from jsa.errors import UsageError
from jsa.evaluation.annealing import annealed_row_likelihoods
from jsa.evaluation.likelihood import RowLikelihoods, exact_row_likelihoods, row_likelihoods
from jsa.evaluation.rows import Rows, Subset, row_weights

WEIGHTS = torch.tensor([3.0, 1.0, 0.0], dtype=torch.float64)
OFTEN = torch.tensor([0, 0, 0, 1])
"""The rows as often as their weights say."""


def weighted(example: Example, weights: Tensor = WEIGHTS) -> RowsInMemory:
    return RowsInMemory(replace(example.batch, weight=weights))


EVALUATIONS: dict[str, Callable[[Example, Rows], float]] = {
    "exact": lambda example, rows: exact_likelihood(example.model, rows).nll,
    "by importance sampling": lambda example, rows: likelihood(example.model, rows, samples=60).nll,
    "bound": lambda example, rows: multi_sample_bounds(example.model, rows, (5,), samples=60)[5],
}


@pytest.mark.parametrize("name", EVALUATIONS)
def test_a_row_of_weight_three_is_the_row_three_times(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The draws belong to the row, so that this is exact; also where the rows come in several chunks."""
    example, score = one_layer(), EVALUATIONS[name]
    expected = score(example, RowsInMemory(example.batch.take(OFTEN)))
    for at_once in (50_000, 1):
        monkeypatch.setattr("jsa.evaluation.likelihood.WEIGHTS_AT_ONCE", at_once)
        monkeypatch.setattr("jsa.evaluation.likelihood.states_in_chunk", lambda rows: 60)
        # Only the proportions of weights matter.
        for scale in (1.0, 0.01):
            assert score(example, weighted(example, scale * WEIGHTS)) == pytest.approx(expected, abs=1e-12)
    assert abs(score(example, RowsInMemory(example.batch)) - expected) > 1e-3


def test_annealed_likelihoods_are_weighted_too() -> None:
    example = one_layer()
    by_row = annealed_row_likelihoods(example.model, weighted(example), samples=4, steps=10)
    unweighted = annealed_row_likelihoods(example.model, RowsInMemory(example.batch), samples=4, steps=10)
    assert torch.equal(by_row.nll, unweighted.nll)
    found = annealed_likelihood(example.model, weighted(example), samples=4, steps=10)
    assert found.nll == pytest.approx(float(by_row.nll[OFTEN].mean()), abs=1e-12)
    assert (found.rows, found.annealing_steps) == (2, 10)


def test_rows_of_weight_zero_are_left_out_of_every_figure() -> None:
    example = one_layer()
    weights = torch.tensor([2.0, 0.0, 2.0], dtype=torch.float64)
    for score in (row_likelihoods, exact_row_likelihoods):
        found = score(example.model, weighted(example, weights))
        alone = score(example.model, Subset(RowsInMemory(example.batch), torch.tensor([0, 2])))
        assert len(found.nll) == 3
        for name, figure in vars(alone.mean).items():
            assert getattr(found.mean, name) == pytest.approx(figure, rel=1e-12), name
        assert found.effective_rows == alone.effective_rows == 2


def test_equal_weights_give_the_figures_of_no_weights() -> None:
    example = one_layer()
    found = row_likelihoods(example.model, weighted(example, torch.full((3,), 0.7))).mean
    for name, figure in vars(row_likelihoods(example.model, RowsInMemory(example.batch)).mean).items():
        assert getattr(found, name) == pytest.approx(figure, rel=1e-12), name


def within(variances: Tensor, reported: float) -> bool:
    """Whether the sample variance of normal figures may be that of a distribution with the reported variance."""
    freedom = len(variances) - 1
    low, high = stats.chi2.ppf([FAILURE_RATE / 2, 1 - FAILURE_RATE / 2], freedom) / freedom
    return bool(low < float(variances.var()) / reported < high)


def test_row_error_is_the_spread_over_populations() -> None:
    """The rows are drawn with their weights; the NLL and its spread depend on the weight."""
    torch.manual_seed(0)
    rows, populations = 500, 2_000
    found, reported, as_if_equal, as_if_independent = [], [], [], []
    for _ in range(populations):
        weights = torch.empty(rows, dtype=torch.float64).exponential_()
        nll = 90 + 2 * weights + (1 + weights) * torch.randn(rows, dtype=torch.float64)
        by_row = RowLikelihoods(nll, torch.full((rows,), torch.inf, dtype=torch.float64), samples=0, weights=weights)
        found.append(by_row.mean.nll)
        reported.append(by_row.mean.row_error**2)
        as_if_equal.append(float(nll.var()) / rows)
        spread = (weights * (nll - by_row.mean.nll).square()).mean() / weights.mean()
        as_if_independent.append(float(spread) / by_row.effective_rows)
    means = torch.tensor(found, dtype=torch.float64)
    assert within(means, sum(reported) / populations)
    # Wrong twins: the error of a mean without weights, and Kish's where the spread depends on the weights.
    assert not within(means, sum(as_if_equal) / populations)
    assert not within(means, sum(as_if_independent) / populations)


def test_effective_rows_give_the_row_error_where_the_spread_is_the_same() -> None:
    torch.manual_seed(0)
    rows = 100_000
    weights, nll = torch.rand(rows, dtype=torch.float64), 90 + 3 * torch.randn(rows, dtype=torch.float64)
    by_row = RowLikelihoods(nll, torch.full_like(nll, torch.inf), samples=0, weights=weights)
    # E[w]^2 / E[w^2] is 3/4 for uniform weights.
    assert by_row.effective_rows == pytest.approx(0.75 * rows, rel=0.01)
    assert by_row.mean.row_error == pytest.approx(3 / math.sqrt(by_row.effective_rows), rel=0.02)


def test_monte_carlo_error_and_bias_are_those_of_a_weighted_mean() -> None:
    example = one_layer()
    # Importance weights that vary little: the delta method is at home there.
    for parameter in example.model.parameters():
        parameter.data.mul_(0.5)
    weights = torch.tensor([5.0, 1.0, 0.5], dtype=torch.float64)
    exact, share = example.exact, weights / weights.sum()
    relative = ((2 * exact.log_weights + exact.log_inference).logsumexp(0) - 2 * exact.log_likelihood).exp() - 1
    runs = [likelihood(example.model, weighted(example, weights), samples=200, seed=seed) for seed in range(500)]
    found = torch.tensor([run.nll for run in runs], dtype=torch.float64)
    reported = sum(run.monte_carlo_error**2 for run in runs) / len(runs)
    assert reported == pytest.approx(float((share.square() * relative).sum()) / 200, rel=0.05)
    assert within(found, reported)
    # A wrong twin: the error of a mean without weights.
    assert not within(found, float(relative.mean()) / (200 * 3))
    bias = sum(run.upward_bias for run in runs) / len(runs)
    assert bias == pytest.approx(float((share * relative).sum()) / 400, rel=0.05)
    assert bias != pytest.approx(float(relative.mean()) / 400, rel=0.05)


class SomeWeighted:
    """Rows of which only the first ones have a weight."""

    def __len__(self) -> int:
        return 300

    def batch(self, index: Tensor, device: torch.device | None = None) -> Batch:
        return Batch(torch.ones(len(index), 2), index, weight=torch.ones(len(index)) if index[-1] < 200 else None)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (lambda: TensorRows(torch.eye(3), weight=torch.zeros(3)), "all 3 rows are zero, so no row counts: give some"),
        (lambda: TensorRows(torch.eye(3), weight=torch.tensor([1.0, -1.0, 1.0])), "row 1 has weight -1.0"),
        (SomeWeighted, "row 200 has no weight, but others have: give each row one, or none"),
    ],
)
def test_wrong_weights_are_refused(rows: Callable[[], Rows], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        row_weights(rows())


def test_weights_are_read_of_any_number_of_rows() -> None:
    weights = torch.rand(1_234)
    found = row_weights(TensorRows(torch.zeros(1_234, 2), weight=weights))
    assert found is not None
    torch.testing.assert_close(found, weights.double() / weights.double().mean(), rtol=1e-12, atol=0)
    assert row_weights(TensorRows(torch.zeros(0, 2), weight=torch.zeros(0))) is None
    assert row_weights(TensorRows(torch.zeros(5, 2))) is None
