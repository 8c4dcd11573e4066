"""The likelihood by importance sampling: right in expectation, with the right error bars, and by enumeration exact."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from scipy import stats

from helpers.extreme_models import Changed
from helpers.significance import FAILURE_RATE, assert_mean, threshold
from helpers.small_models import Example, RowsInMemory, conditional, one_layer
from jsa import Batch, BeliefNetwork, LatentSpace, Layer, exact_likelihood, likelihood, multi_sample_bounds
from jsa.errors import NumericalError, UsageError
from jsa.evaluation.draws import RowDraws
from jsa.evaluation.likelihood import Likelihood
from jsa.evaluation.results import figures_record
from jsa.evaluation.rows import TensorRows, as_rows
from jsa.model_calls import evaluate, posterior_of
from jsa.testing.gradients import repeated


def with_wide_proposals() -> Example:
    """One layer whose importance weights vary little: the delta method is at home there."""
    example = one_layer()
    for parameter in example.model.parameters():
        parameter.data.mul_(0.5)
    return example


def exact_nll(example: Example) -> float:
    return -example.exact.log_likelihood.mean().item()


def relative_variance(example: Example) -> torch.Tensor:
    """Var w / (E w)^2 of each row, exactly."""
    exact = example.exact
    return ((2 * exact.log_weights + exact.log_inference).logsumexp(0) - 2 * exact.log_likelihood).exp() - 1


def test_mean_weight_is_the_likelihood(example: Example) -> None:
    batch = repeated(example.batch, 20)
    with torch.no_grad():
        posterior = posterior_of(example.model, batch)
        h, _ = RowDraws(example.model, batch, posterior, seed=0).blocks(0, 20)
        weights = evaluate(example.model, batch, posterior, h).log_weights.exp()
    by_row = weights.unflatten(1, (20, -1)).flatten(0, 1)
    assert len(by_row) == 20_000
    assert_mean(by_row, example.exact.log_likelihood.exp())


def test_estimate_is_the_exact_one_within_its_error(example: Example) -> None:
    found = likelihood(example.model, RowsInMemory(repeated(example.batch, 5)), samples=5_000)
    deviation = found.nll - found.upward_bias - exact_nll(example)
    assert abs(deviation) < threshold(1) * found.monte_carlo_error
    assert found.monte_carlo_error < 0.03
    assert (found.samples, found.rows) == (5_000, 15)


def test_monte_carlo_error_is_the_spread_over_seeds() -> None:
    example = with_wide_proposals()
    rows = RowsInMemory(repeated(example.batch, 4))
    runs = [likelihood(example.model, rows, samples=200, seed=seed) for seed in range(300)]
    spread = torch.tensor([run.nll for run in runs], dtype=torch.float64).var().item()
    reported = sum(run.monte_carlo_error**2 for run in runs) / len(runs)
    # The sample variance of 300 runs, in units of the true one, is chi-square over its degrees of freedom.
    low, high = stats.chi2.ppf([FAILURE_RATE / 2, 1 - FAILURE_RATE / 2], 299) / 299
    assert low < spread / reported < high
    expected = math.sqrt(float(relative_variance(example).mean()) / (200 * len(rows)))
    assert math.sqrt(reported) == pytest.approx(expected, rel=0.05)


def test_upward_bias_has_the_right_sign_and_size() -> None:
    example = with_wide_proposals()
    rows = RowsInMemory(repeated(example.batch, 4_000))
    found = likelihood(example.model, rows, samples=10)
    bias = found.nll - exact_nll(example)
    assert bias > 5 * found.monte_carlo_error  # a bias that is seen beyond doubt
    assert bias == pytest.approx(found.upward_bias, rel=0.25)
    more = likelihood(example.model, rows, samples=100)
    assert more.upward_bias == pytest.approx(float(relative_variance(example).mean()) / 200, rel=0.05)


def test_row_error_is_the_spread_over_rows(example: Example) -> None:
    found = exact_likelihood(example.model, RowsInMemory(example.batch))
    values = example.exact.log_likelihood
    assert found.row_error == pytest.approx(float(values.std()) / math.sqrt(3), abs=1e-12)


def test_effective_sample_sizes_are_of_the_mean_and_of_the_worst_row() -> None:
    example = with_wide_proposals()
    found = likelihood(example.model, RowsInMemory(example.batch), samples=20_000)
    expected = 20_000 / (1 + relative_variance(example))
    assert found.effective_sample_size == pytest.approx(float(expected.mean()), rel=0.05)
    assert found.lowest_effective_sample_size == pytest.approx(float(expected.min()), rel=0.05)


def test_perfect_proposals_leave_no_error() -> None:
    """Where q is the posterior all weights are p(x)."""
    model = BeliefNetwork(Layer("bernoulli", 2), LatentSpace.of(Layer("bernoulli", 2))).double()
    for parameter in model.parameters():
        parameter.data.zero_()
    rows = RowsInMemory(Batch(torch.ones(3, 2, dtype=torch.float64), torch.arange(3)))
    found = likelihood(model, rows, samples=60)
    assert found.nll == pytest.approx(2 * math.log(2), abs=1e-12)
    assert found.upward_bias == pytest.approx(0, abs=1e-12)
    assert found.monte_carlo_error == pytest.approx(0, abs=1e-7)
    assert found.effective_sample_size == pytest.approx(60)


def test_exact_likelihood_is_that_of_brute_force(example: Example) -> None:
    found = exact_likelihood(example.model, RowsInMemory(example.batch))
    assert found.nll == pytest.approx(exact_nll(example), abs=1e-12)
    assert found.monte_carlo_error == found.upward_bias == 0
    assert str(found).endswith("exact")


def test_exact_likelihood_of_many_rows_is_cut_into_chunks() -> None:
    example = one_layer()
    rows = repeated(example.batch, 500)  # 8 states of 1,500 rows: more than one chunk
    done: list[int] = []
    found = exact_likelihood(example.model, RowsInMemory(rows), progress=done.append)
    assert found.nll == pytest.approx(exact_nll(example), abs=1e-12)
    assert len(done) > 1
    assert sum(done) == 1_500


def test_exact_likelihood_of_many_states_is_cut_into_chunks() -> None:
    model = BeliefNetwork(Layer("bernoulli", 3), LatentSpace.of(Layer("bernoulli", 13))).double()
    example = Example(model, Batch(torch.tensor([[0.0, 1.0, 1.0]], dtype=torch.float64), torch.arange(1)))
    assert exact_likelihood(model, RowsInMemory(example.batch)).nll == pytest.approx(exact_nll(example), abs=1e-12)


def test_bounds_rise_with_the_particles(example: Example) -> None:
    rows = RowsInMemory(repeated(example.batch, 10))
    bounds = multi_sample_bounds(example.model, rows, particles=(1, 2, 5, 20, 100), samples=2_000)
    values = list(bounds.values())
    assert list(bounds) == [1, 2, 5, 20, 100]
    assert values == sorted(values)
    assert values[0] < values[-1] < -exact_nll(example) + 0.01


def test_one_particle_is_the_evidence_lower_bound(example: Example) -> None:
    exact = example.exact
    expected = (exact.inference * exact.log_weights).sum(0).mean().item()
    rows = RowsInMemory(repeated(example.batch, 20))
    found = multi_sample_bounds(example.model, rows, particles=(1,), samples=1_000)[1]
    variance = (exact.inference * exact.log_weights.square()).sum(0) - (exact.inference * exact.log_weights).sum(0) ** 2
    error = math.sqrt(float(variance.mean()) / (1_000 * len(rows)))
    assert abs(found - expected) < threshold(1) * error


def test_all_samples_as_particles_are_the_likelihood() -> None:
    example = one_layer()
    rows = RowsInMemory(example.batch)
    bound = multi_sample_bounds(example.model, rows, particles=(120,), samples=120, seed=3)[120]
    assert -bound == pytest.approx(likelihood(example.model, rows, samples=120, seed=3).nll, abs=1e-12)


EVALUATIONS: dict[str, Callable[..., object]] = {
    "likelihood": likelihood,
    "exact_likelihood": exact_likelihood,
    "multi_sample_bounds": multi_sample_bounds,
}
PARTICLES = "a bound takes 1 to 100 particles"


def refusals() -> Iterator[tuple[Callable[[], object], type[Exception], str]]:
    example = one_layer()
    model, rows = example.model, RowsInMemory(example.batch)
    for particles in ((), (0,), (1, 101)):
        yield partial(multi_sample_bounds, model, rows, particles=particles, samples=100), UsageError, PARTICLES
    for samples in (0, -5):
        yield partial(likelihood, model, rows, samples=samples), UsageError, "samples must be 1 or more, not"
    for score in EVALUATIONS.values():
        nothing = RowsInMemory(example.batch.take(torch.arange(0)))
        yield partial(score, model, nothing), UsageError, "no rows to evaluate"
    no_state_at_row_2 = Changed(model, lambda joint, rows, h: torch.where(rows.row_numbers == 2, -torch.inf, joint))
    for score in (likelihood, exact_likelihood):
        yield partial(score, no_state_at_row_2, rows), NumericalError, r"log p\(x\) is -inf at row 2"
    # Without the type checks of these tests, which would come first.
    wrong = partial(inspect.unwrap(as_rows), [torch.ones(2, 3)])
    yield wrong, UsageError, r"list cannot be evaluated as data: give a tensor, jsa\.TensorRows"


@pytest.mark.parametrize(("call", "error", "sentence"), list(refusals()))
def test_what_cannot_be_evaluated_is_refused(call: Callable[[], object], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        call()


def test_one_sample_claims_no_error_that_it_cannot_know() -> None:
    example = one_layer()
    found = likelihood(example.model, RowsInMemory(example.batch), samples=1)
    assert math.isnan(found.monte_carlo_error)
    assert math.isnan(found.upward_bias)
    assert found.warning is not None
    assert "ELBO" in found.warning
    assert str(found).endswith("(one sample per row has no Monte Carlo error)")
    assert "nan" not in str(found)


@pytest.mark.parametrize("score", [likelihood, exact_likelihood])
def test_one_row_claims_no_error_over_rows(score: Callable[..., Likelihood]) -> None:
    example = one_layer()
    found = score(example.model, RowsInMemory(example.batch.take(torch.tensor([0]))))
    assert math.isnan(found.row_error)
    assert f"{found.nll:.3f} (one row has no error)" in str(found)
    assert "nan" not in str(found)


def test_a_record_of_figures_is_json_and_names_what_there_is_not() -> None:
    example = one_layer()
    one = likelihood(example.model, RowsInMemory(example.batch.take(torch.tensor([0]))), samples=1)
    record = figures_record(one)
    nothing = {name for name, value in record.items() if value is None}
    assert nothing == {"row_error", "monte_carlo_error", "upward_bias"}
    exact = figures_record(exact_likelihood(example.model, RowsInMemory(example.batch)))
    assert exact["effective_sample_size"] is None
    assert exact["monte_carlo_error"] == 0
    json.dumps([record, exact], allow_nan=False)


@pytest.mark.parametrize("name", EVALUATIONS)
def test_mode_is_restored_and_no_gradient_is_recorded(name: str) -> None:
    example = one_layer()
    modes: list[tuple[bool, bool]] = []

    def watched(joint: torch.Tensor, batch: Batch, h: torch.Tensor) -> torch.Tensor:
        modes.append((model.training, torch.is_grad_enabled()))
        return joint

    model = Changed(example.model, watched).train()
    EVALUATIONS[name](model, RowsInMemory(example.batch))
    assert set(modes) == {(False, False)}
    assert model.training


def test_progress_counts_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    example = one_layer()
    done: list[int] = []
    rows = RowsInMemory(repeated(example.batch, 5))
    monkeypatch.setattr("jsa.evaluation.likelihood.states_in_chunk", lambda rows: 4 * 60)
    likelihood(example.model, rows, samples=60, progress=done.append)
    assert done == [4, 4, 4, 3]


def test_text_says_what_is_needed_to_judge_the_figure() -> None:
    text = str(Likelihood(91.2345, 0.4567, 0.0123, 0.0456, 12.3, 1.1, 1_000, 10_000))
    for part in ("91.234", "0.457 (over 10000 rows)", "0.012 (Monte Carlo, 1000 samples)", "12.3", "0.05"):
        assert part in text


@pytest.mark.parametrize("name", EVALUATIONS)
def test_a_tensor_is_taken_as_its_rows(name: str) -> None:
    example = conditional()
    assert example.batch.context is not None
    rows = TensorRows(example.batch.x, example.batch.context)
    assert EVALUATIONS[name](example.model, rows) == EVALUATIONS[name](example.model, RowsInMemory(example.batch))
    plain = one_layer()
    assert EVALUATIONS[name](plain.model, plain.batch.x) == EVALUATIONS[name](plain.model, RowsInMemory(plain.batch))


@pytest.mark.parametrize(
    ("bias", "words"), [(0.05, "biased upward by about 0.05"), (0.3, "biased upward by at least 0.30")]
)
def test_too_few_samples_are_warned_of_and_their_bias_is_a_lower_bound(bias: float, words: str) -> None:
    found = Likelihood(80.0, 0.2, 0.01, bias, 3.0, 1.0, samples=1000, rows=100)
    assert str(found).endswith(words)
    assert (found.warning is not None) == (bias > 0.1)
    assert found.warning is None or found.warning.endswith("jsa evaluate --annealing-steps)")
