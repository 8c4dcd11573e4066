"""Numbers at the edge: a step is finite wherever the mathematics is, and else an error names the term and the row."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable

import pytest
import torch

from helpers.extreme_models import DTYPES, Changed, impossible, impossible_at_row_1, in_precision, sound_step, stepped
from helpers.methods import NAMES, estimator_of, example_of
from helpers.small_models import RowsInMemory, randomize
from jsa import Batch, BeliefNetwork, LatentSpace, LatentVariableModel, Layer, PersistentEstimator, Stage
from jsa.errors import NumericalError
from jsa.evaluation.likelihood import exact_likelihood, likelihood, multi_sample_bounds

CHAINS = ("hybrid", "jsa", "jsa-rao-blackwell", "msc")

Change = Callable[[LatentVariableModel, float], None]

UNMOVED = ("enumeration", *CHAINS, "rws", "vimco", "rloo", "arm", "disarm", "arms", "arsm")
"""The methods whose gradient does not change when all weights of a row are multiplied by a number."""


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


def scale(model: LatentVariableModel, factor: float) -> None:
    """All parameters times a number."""
    for parameter in model.parameters():
        parameter.data.mul_(factor)


def set_biases(model: LatentVariableModel, value: float) -> None:
    """All biases, of the model and of the inference model, at one value."""
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data.fill_(value)


@pytest.mark.parametrize(("change", "by"), [(scale, 1e4), (scale, 1e-30), (set_biases, 1e4), (set_biases, -1e4)])
def test_extreme_logits_give_finite_steps(name: str, dtype: torch.dtype, change: Change, by: float) -> None:
    model, batch = in_precision(example_of(name), dtype)
    change(model, by)
    sound_step(name, model, batch)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("which", ["inference", "generative"])
def test_a_parameter_that_is_not_finite_is_an_error_with_its_row(
    name: str, dtype: torch.dtype, which: str, value: float
) -> None:
    model, batch = in_precision(example_of(name), dtype)
    biases = [one for key, one in model.named_parameters() if key.startswith(which) and key.endswith("bias")]
    biases[-1].data[0] = value
    with pytest.raises(
        NumericalError, match=r"(log_joint|log_prob|log-weight) is (nan|inf|-inf) at row \d|zero to row \d"
    ):
        stepped(name, model, batch)


@pytest.mark.parametrize("factor", [1e20, 1e30, 1e38])
def test_numbers_beyond_the_precision_are_never_taken_for_a_result(name: str, factor: float) -> None:
    model, batch = in_precision(example_of(name), torch.float32)
    scale(model, factor)
    with contextlib.suppress(NumericalError):
        sound_step(name, model, batch)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_rows_of_one_value_and_constant_columns_give_finite_steps(name: str, dtype: torch.dtype, value: float) -> None:
    model, batch = in_precision(example_of(name), dtype)
    sound_step(name, model, Batch(torch.full_like(batch.x, value), batch.index))
    column = batch.x.clone()
    column[:, 0] = value
    sound_step(name, model, Batch(column, batch.index))


def test_one_row_with_extreme_logits_gives_a_finite_step(name: str, dtype: torch.dtype) -> None:
    model, batch = in_precision(example_of(name), dtype)
    scale(model, 1e4)
    sound_step(name, model, batch.take(torch.tensor([1])))


@pytest.mark.parametrize("shift", [-700.0, -1e5, 1e5])
def test_weights_of_any_magnitude_give_finite_steps(name: str, dtype: torch.dtype, shift: float) -> None:
    """A weight of 1e-300 underflows in single precision, and one of exp(-1e5) in any."""
    model, batch = in_precision(example_of(name), dtype)
    sound_step(name, Changed(model, lambda joint, rows, h: joint + shift * (1 + rows.row_numbers.to(joint))), batch)
    # Some states of a row are so much less probable than others.
    sound_step(name, Changed(model, lambda joint, rows, h: joint + shift * h[..., 0]), batch)


@pytest.mark.parametrize("name", UNMOVED)
def test_the_magnitude_of_the_weights_changes_no_gradient(name: str) -> None:
    model, batch = in_precision(example_of(name), torch.float64)

    found = []
    for changed in (model, Changed(model, lambda joint, rows, h: joint - 690.0)):
        stepped(name, changed, batch)
        found.append([parameter.grad for parameter in model.parameters()])
    for plain, tiny in zip(*found, strict=True):
        torch.testing.assert_close(tiny, plain, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_log_joint_that_is_no_number_is_named_with_its_row(name: str, dtype: torch.dtype, value: float) -> None:
    model, batch = in_precision(example_of(name), dtype)
    changed = Changed(model, lambda joint, rows, h: torch.where(rows.row_numbers == 1, value, joint))
    term = "a log-weight" if name == "enumeration" else "log_joint"
    with pytest.raises(NumericalError, match=f"{term} is {value} at row 1"):
        stepped(name, changed, batch)


def test_impossible_states_do_not_count_where_all_states_do(dtype: torch.dtype) -> None:
    model, batch = in_precision(example_of("enumeration"), dtype)
    sound_step("enumeration", Changed(model, impossible), batch)


def persistent(name: str, model: LatentVariableModel, batch: Batch) -> PersistentEstimator:
    estimator = estimator_of(name, model, batch)
    assert isinstance(estimator, PersistentEstimator)
    return estimator


def standing_at(value: float, name: str, model: LatentVariableModel, batch: Batch) -> PersistentEstimator:
    """The method in stage II, its chains at the state that has this value everywhere."""
    estimator = persistent(name, model, batch)
    estimator.stage = Stage.PERSISTENT
    states = torch.full((len(batch), model.latent.width), value, dtype=batch.x.dtype)
    estimator.chains.write(batch.row_numbers, states, moved=torch.ones(len(batch), dtype=torch.bool))
    return estimator


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_at_a_possible_state_never_goes_to_an_impossible_one(name: str, dtype: torch.dtype) -> None:
    model, batch = in_precision(example_of(name), dtype)
    changed = Changed(model, impossible)
    estimator = standing_at(1.0, name, changed, batch)
    for _ in range(20):
        sound_step(name, changed, batch, estimator, objective_may_be_infinite=True)
        states, _ = estimator.chains.read(batch.row_numbers)
        assert (states[:, 0] == 1).all()


def test_a_row_without_any_possible_state_is_named(name: str, dtype: torch.dtype) -> None:
    model, batch = in_precision(example_of(name), dtype)
    changed = Changed(model, lambda joint, rows, h: torch.where(rows.row_numbers == 1, -math.inf, joint))
    drawn = " with every state that was drawn" if name in ("hybrid", "msc", "rws") else ""
    with pytest.raises(NumericalError, match=f"the model gives probability zero to row 1{drawn}"):
        stepped(name, changed, batch)


def test_vimco_is_finite_where_two_of_the_samples_are_possible(dtype: torch.dtype) -> None:
    model, batch = in_precision(example_of("vimco"), dtype)
    changed = Changed(model, impossible_at_row_1)
    estimator = estimator_of("vimco", changed, batch, particles=40)
    estimate = sound_step("vimco", changed, batch, estimator)
    assert (estimate.log_weights == -math.inf).any()


@pytest.mark.parametrize("name", ["reinforce", "rloo", "nvil", "muprop", "arm", "disarm", "arms", "arsm"])
def test_an_impossible_state_among_those_drawn_is_named_with_its_row(name: str, dtype: torch.dtype) -> None:
    """The bound of these methods is minus infinity as soon as one draw is impossible."""
    model, batch = in_precision(example_of(name), dtype)
    changed = Changed(model, impossible_at_row_1)
    options = {} if name == "arsm" else {"particles": 40}
    estimator = estimator_of(name, changed, batch, **options)
    with pytest.raises(NumericalError, match=r"probability zero .*row 1"):
        stepped(name, changed, batch, estimator)


def test_a_chain_that_starts_at_an_impossible_state_is_named_with_its_row(dtype: torch.dtype) -> None:
    """In stage I a chain starts anywhere; where it counts there before it has left, the gradient is infinite."""
    model, batch = in_precision(example_of("jsa"), dtype)
    changed = Changed(model, impossible)
    estimator = estimator_of("jsa", changed, batch, particles=2)
    refused = 0
    for seed in range(40):
        try:
            sound_step("jsa", changed, batch, estimator, objective_may_be_infinite=True, seed=seed)
        except NumericalError as error:
            assert re.search(r"probability zero .*row \d", str(error))  # noqa: PT017
            refused += 1
    assert 0 < refused < 40


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("logit", [1e4, -1e4])
def test_a_proposal_of_a_single_state_gives_finite_steps(name: str, dtype: torch.dtype, logit: float) -> None:
    """One latent bit that q always draws alike: chains that start there stay there, and are sound."""
    model, batch = single_bit(dtype, logit)
    estimator = persistent(name, model, batch)
    for stage in (Stage.FRESH, Stage.PERSISTENT):
        estimator.stage = stage
        sound_step(name, model, batch, estimator)
        states, visited = estimator.chains.read(batch.row_numbers)
        assert visited.all()
        assert (states == (1 if logit > 0 else 0)).all()


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_at_a_state_of_huge_weight_stays_and_is_sound(name: str, dtype: torch.dtype) -> None:
    """q gives the cached state a probability of exp(-1e4): no proposal can take its place."""
    model, batch = single_bit(dtype, 1e4)
    estimator = standing_at(0.0, name, model, batch)
    for _ in range(5):
        estimate = sound_step(name, model, batch, estimator)
        assert estimate.diagnostics["acceptance"] == 0
    states, _ = estimator.chains.read(batch.row_numbers)
    assert (states == 0).all()
    assert estimate.diagnostics["frozen_share"] >= 0


def single_bit(dtype: torch.dtype, logit: float) -> tuple[BeliefNetwork, Batch]:
    """A model of one latent bit whose inference model always draws the same."""
    model = randomize(BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("bernoulli", 1))), 0).to(dtype)
    for key, parameter in model.named_parameters():
        if key.startswith("inference"):
            parameter.data.fill_(logit if key.endswith("bias") else 0.0)
    x = torch.tensor([[0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]], dtype=dtype)
    return model, Batch(x, torch.arange(3))


@pytest.mark.parametrize("shift", [0.0, -700.0, -1e5])
def test_likelihoods_of_any_magnitude_are_finite(shift: float) -> None:
    model, batch = in_precision(example_of("jsa"), torch.float64)
    rows = RowsInMemory(batch)
    changed = Changed(model, lambda joint, rows, h: joint + shift)
    exact = exact_likelihood(changed, rows)
    assert exact.nll == pytest.approx(exact_likelihood(model, rows).nll - shift)
    assert likelihood(changed, rows, 2000, seed=0).nll == pytest.approx(exact.nll, abs=0.5)
    assert all(math.isfinite(bound) for bound in multi_sample_bounds(changed, rows, (1, 5), 100, seed=0).values())


def test_likelihoods_leave_impossible_states_out() -> None:
    model, batch = in_precision(example_of("jsa"), torch.float64)
    changed = Changed(model, impossible)
    exact = exact_likelihood(changed, RowsInMemory(batch))
    assert math.isfinite(exact.nll)
    assert likelihood(changed, RowsInMemory(batch), 5000, seed=0).nll == pytest.approx(exact.nll, abs=0.5)
