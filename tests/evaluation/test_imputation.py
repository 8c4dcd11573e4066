"""Missing values are filled in from their exact probabilities given the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from helpers.missing_rows import GAPS, probabilities_of_completions, with_gaps
from helpers.significance import assert_frequencies, assert_mean
from helpers.small_models import Example, RowsInMemory, Wrapped, one_layer
from jsa import LatentVariableModel, TensorRows, exact_likelihood, impute, row_likelihoods
from jsa.errors import NumericalError, UsageError
from jsa.testing.gradients import repeated


@pytest.fixture(params=GAPS)
def example(request: pytest.FixtureRequest) -> Example:
    return with_gaps(request.param)


def expected(example: Example) -> Tensor:
    """Each row with the expectation of what is missing."""
    pairs = (probabilities_of_completions(example, row) for row in range(len(example.batch)))
    return torch.stack([probabilities @ rows for rows, probabilities in pairs])


def estimates(example: Example, samples: int, seeds: int) -> Tensor:
    rows = RowsInMemory(example.batch)
    return torch.stack([impute(example.model, rows, samples, seed=seed).x for seed in range(seeds)])


def test_with_enough_samples_it_is_exact(example: Example) -> None:
    assert example.model.latent.states <= 100
    found = impute(example.model, RowsInMemory(example.batch), 100).x
    assert torch.allclose(found, expected(example), atol=1e-12, rtol=0)


def test_it_is_exact_in_small_parts(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsa.evaluation.imputation.states_at_once", lambda batch: 3)
    monkeypatch.setattr("jsa.evaluation.imputation.states_in_chunk", lambda rows: 1)
    found = impute(example.model, RowsInMemory(example.batch), 100).x
    assert torch.allclose(found, expected(example), atol=1e-12, rtol=0)


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every state space is too large to be summed over."""
    monkeypatch.setattr("jsa.evaluation.imputation.ENUMERATION_LIMIT", 1)


@pytest.mark.usefixtures("sampled")
def test_by_importance_samples_it_is_close(example: Example) -> None:
    # The estimate has a bias of one part in the samples, which is below its error here.
    found = estimates(example, samples=20_000, seeds=12)
    assert not torch.allclose(found[0], found[1], atol=1e-9, rtol=0)
    gaps = example.batch.x.isnan()
    assert float(found.std(0)[gaps].max()) < 0.02
    assert_mean(found[:, gaps], expected(example)[gaps])


@pytest.mark.usefixtures("sampled")
def test_without_weights_it_would_be_wrong(example: Example) -> None:
    """The twin: states of q count as if they came from the posterior."""
    vars(example.model)["log_joint"] = lambda batch, h: example.model.posterior(batch).log_prob(h)
    gaps, found = example.batch.x.isnan(), estimates(example, samples=20_000, seeds=12)
    vars(example.model).pop("log_joint")
    with pytest.raises(AssertionError, match="standard errors off"):
        assert_mean(found[:, gaps], expected(example)[gaps])


def test_what_is_there_stays(example: Example) -> None:
    there = ~example.batch.x.isnan()
    for draw in (False, True):
        found = impute(example.model, RowsInMemory(example.batch), draw=draw).x
        assert torch.equal(found[there], example.batch.x[there])


@pytest.mark.parametrize(("limit", "many", "samples"), [(100, 5_000, 100), (1, 400, 1_000)])
def test_draws_have_the_law_of_whole_rows(
    example: Example, limit: int, many: int, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The bias of importance sampling is below the error of so few draws.
    monkeypatch.setattr("jsa.evaluation.imputation.ENUMERATION_LIMIT", limit)
    found = impute(example.model, RowsInMemory(repeated(example.batch, many)), samples, draw=True, seed=3).x
    for row in range(len(example.batch)):
        complete, probabilities = probabilities_of_completions(example, row)
        drawn = found[row :: len(example.batch)]
        same = (drawn.unsqueeze(1) == complete).all(-1)
        assert bool(same.any(-1).all())
        assert_frequencies(same.long().argmax(-1), probabilities)


def test_drawing_each_value_by_itself_would_be_wrong() -> None:
    """The twin: two bits that are missing depend on one another."""
    example = with_gaps("two-layers")
    complete, probabilities = probabilities_of_completions(example, 2)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.bernoulli(expected(example)[2].clamp(0, 1).expand(5_000, -1), generator=generator)
    numbers = (drawn.unsqueeze(1) == complete).all(-1).long().argmax(-1)
    with pytest.raises(AssertionError, match="frequencies this far off"):
        assert_frequencies(numbers, probabilities)


def test_it_is_repeatable_counts_rows_and_leaves_random_numbers_alone(example: Example) -> None:
    rows = RowsInMemory(example.batch)
    before = torch.get_rng_state()
    done: list[int] = []
    first, again = (impute(example.model, rows, draw=True, seed=1, progress=done.append).x for _ in range(2))
    assert sum(done) == 2 * len(rows)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, again)
    several = [impute(example.model, rows, draw=True, seed=seed).x for seed in range(12)]
    assert any(not torch.equal(one, several[2]) for one in several)


def test_with_all_states_nothing_is_to_be_trusted_less(example: Example) -> None:
    assert bool(impute(example.model, RowsInMemory(example.batch)).effective_sample_size.isinf().all())


@pytest.mark.usefixtures("sampled")
def test_the_effective_sample_size_tells_how_far_to_trust(example: Example) -> None:
    rows, gaps = RowsInMemory(example.batch), example.batch.x.isnan().any(-1)
    found = impute(example.model, rows, 2_000).effective_sample_size
    assert bool(found[~gaps].isinf().all())
    expected = row_likelihoods(example.model, rows, 2_000).effective_sample_size
    assert torch.allclose(found[gaps], expected[gaps], rtol=1e-9)


def test_known_latents_are_kept_to() -> None:
    example = with_gaps("one-layer")
    known = torch.full((3, 3), torch.nan, dtype=torch.float64)
    known[0] = torch.tensor([1.0, 0.0, 1.0])
    found = impute(example.model, TensorRows(example.batch.x, known=known)).x
    mean = example.network.observation(known[0]).mean
    assert torch.allclose(found[0, [0, 3]], mean[[0, 3]], atol=1e-12, rtol=0)


WITHOUT_GAPS = r"log_joint is nan at row 0, which has missing values .*missing=True"

REFUSALS: list[tuple[Callable[[LatentVariableModel, Tensor], object], type[Exception], str]] = [
    (
        lambda model, x: impute(Wrapped(model), x),
        UsageError,
        "but Wrapped does not define it: write its methods sample_la",
    ),
    (lambda model, x: impute(model, x, 0), UsageError, "samples must be 1 or more, not 0"),
    (
        lambda model, x: impute(model, x.view(3, 2, 2)),
        UsageError,
        r"only rows that are vectors .* of shape \(2, 2\)",
    ),
    (lambda model, x: impute(one_layer().model, x), NumericalError, WITHOUT_GAPS),
    (lambda model, x: exact_likelihood(one_layer().model, x), NumericalError, WITHOUT_GAPS),
    (lambda model, x: impute(model, x[:0]), UsageError, "no rows"),
]


@pytest.mark.parametrize(("call", "error", "sentence"), REFUSALS)
def test_what_cannot_be_filled_in_is_said(call: Callable[..., object], error: type[Exception], sentence: str) -> None:
    example = with_gaps("one-layer")
    with pytest.raises(error, match=sentence):
        call(example.model, example.batch.x)
