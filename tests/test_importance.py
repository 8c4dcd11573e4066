"""Pure functions of log-weights, against properties and against plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.path_laws import every_piece
from jsa.importance import (
    acceptances,
    effective_sample_size,
    independence_path,
    leave_one_out_bounds,
    log_mean_weight,
    multiplicities,
    occupancy,
)

FINITE = st.floats(-40, 40)
LOG_WEIGHT = st.one_of(FINITE, st.just(-math.inf))


@dataclass(frozen=True)
class Proposals:
    """The log-weights of candidates and the uniforms that decide about them."""

    log_weights: Tensor
    uniforms: Tensor


@st.composite
def proposals(draw: st.DrawFn, values: st.SearchStrategy[float] = LOG_WEIGHT) -> Proposals:
    moves, batch = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    log_weights = [draw(st.lists(values, min_size=batch, max_size=batch)) for _ in range(moves + 1)]
    unit = st.floats(0, 1, exclude_max=True)
    uniforms = [draw(st.lists(unit, min_size=batch, max_size=batch)) for _ in range(moves)]
    return Proposals(torch.tensor(log_weights, dtype=torch.float64), torch.tensor(uniforms, dtype=torch.float64))


@st.composite
def log_weight_matrices(draw: st.DrawFn) -> Tensor:
    """Log-weights with a positive weight in every column."""
    samples, batch = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    rows = [draw(st.lists(LOG_WEIGHT, min_size=batch, max_size=batch)) for _ in range(samples - 1)]
    rows.append(draw(st.lists(FINITE, min_size=batch, max_size=batch)))
    return torch.tensor(rows, dtype=torch.float64)


def path_by_a_plain_loop(log_weights: list[float], uniforms: list[float]) -> list[int]:
    """Metropolis independence sampling of one chain, as the textbook has it."""
    state, path = 0, []
    for move, uniform in enumerate(uniforms, start=1):
        proposed, current = log_weights[move], log_weights[state]
        if proposed == -math.inf:
            accepted = False
        elif current == -math.inf or uniform == 0:
            accepted = True
        else:
            accepted = math.log(uniform) + current < proposed
        state = move if accepted else state
        path.append(state)
    return path


@given(proposals())
def test_path_is_that_of_a_plain_loop(given: Proposals) -> None:
    path = independence_path(given.log_weights, given.uniforms)
    columns = zip(given.log_weights.T.tolist(), given.uniforms.T.tolist(), strict=True)
    assert path.T.tolist() == [path_by_a_plain_loop(*column) for column in columns]


@given(proposals())
def test_a_chain_stays_or_moves_to_the_latest_proposal(given: Proposals) -> None:
    path = independence_path(given.log_weights, given.uniforms)
    before = torch.cat([torch.zeros_like(path[:1]), path[:-1]])
    latest = torch.arange(1, len(path) + 1).unsqueeze(1)
    assert ((path == before) | (path == latest)).all()


# Quarters are exact in binary, so that a shift changes no comparison by rounding.
@given(proposals(st.integers(-80, 80).map(lambda value: value / 4)), st.lists(st.integers(-64, 64), min_size=4))
def test_a_constant_factor_of_a_rows_weights_changes_nothing(given: Proposals, shifts: list[int]) -> None:
    shift = torch.tensor(shifts[: given.log_weights.shape[1]], dtype=torch.float64)
    uniforms = (given.uniforms.log() * 4).round().div(4).exp()  # no comparison is a close call
    uniforms = (uniforms * 1.03).clamp(max=0.999)
    path = independence_path(given.log_weights, uniforms)
    assert torch.equal(independence_path(given.log_weights + shift, uniforms), path)


@given(proposals(FINITE))
def test_a_state_of_no_weight_is_left_at_once_and_never_entered(given: Proposals) -> None:
    start = torch.arange(len(given.log_weights)).unsqueeze(1) == 0
    assert (independence_path(given.log_weights.masked_fill(start, -math.inf), given.uniforms)[0] == 1).all()
    assert (independence_path(given.log_weights.masked_fill(~start, -math.inf), given.uniforms) == 0).all()


@given(proposals(FINITE))
def test_a_heavier_proposal_is_always_accepted(given: Proposals) -> None:
    log_weights = given.log_weights.sort(0).values
    log_weights = log_weights + torch.arange(len(log_weights)).unsqueeze(1)
    path = independence_path(log_weights, given.uniforms)
    assert (path == torch.arange(1, len(path) + 1).unsqueeze(1)).all()


@given(proposals())
def test_multiplicities_count_the_moves_and_acceptances_the_candidates_entered(given: Proposals) -> None:
    path = independence_path(given.log_weights, given.uniforms)
    counts = multiplicities(path, len(given.log_weights))
    assert (counts.sum(0) == len(path)).all()
    for candidate in range(len(given.log_weights)):
        assert torch.equal(counts[candidate], (path == candidate).sum(0))
    # A candidate is entered once at most, so the accepted ones are the different ones other than the start.
    entered = [len(set(column) - {0}) for column in path.T.tolist()]
    assert acceptances(path).tolist() == entered


@given(proposals(FINITE))
def test_occupancy_is_the_expected_share_of_moves(given: Proposals) -> None:
    log_weights = given.log_weights[:4]
    expected = torch.zeros_like(log_weights)
    for uniforms, probability in every_piece(log_weights):
        path = independence_path(log_weights, uniforms)
        expected += probability * multiplicities(path, len(log_weights)) / len(path)
    assert torch.allclose(occupancy(log_weights), expected, atol=1e-12, rtol=0)


@given(proposals())
def test_occupancy_is_shared_out_among_all_candidates(given: Proposals) -> None:
    shares = occupancy(given.log_weights)
    assert (shares >= 0).all()
    assert torch.allclose(shares.sum(0), torch.ones_like(shares[0]), atol=1e-12, rtol=0)


@given(proposals(FINITE))
def test_leave_one_out_bounds_replace_a_log_weight_by_the_mean_of_the_others(given: Proposals) -> None:
    for column, bounds in zip(given.log_weights.T, leave_one_out_bounds(given.log_weights).T, strict=True):
        for sample, bound in enumerate(bounds):
            replaced = column.clone()
            replaced[sample] = torch.cat([column[:sample], column[sample + 1 :]]).mean()
            assert torch.allclose(bound, replaced.exp().mean().log(), rtol=1e-9, atol=1e-9)


@given(log_weight_matrices(), st.floats(-1000, 1000))
def test_effective_sample_size_is_that_of_a_plain_sum_at_every_scale(log_weights: Tensor, shift: float) -> None:
    weights = log_weights.exp()
    expected = weights.sum(0).square() / weights.square().sum(0)
    assert torch.allclose(effective_sample_size(log_weights), expected, rtol=1e-9)
    size = effective_sample_size(log_weights + shift)
    assert torch.allclose(size, expected, rtol=1e-9)
    assert ((size >= 1 - 1e-9) & (size <= len(log_weights) + 1e-9)).all()


def test_no_weight_at_all_is_worth_no_sample_and_a_mean_of_zero() -> None:
    # A visit where the model excludes all proposals must not put NaN into the diagnostics.
    assert effective_sample_size(torch.full((3, 1), -math.inf)).item() == 0
    assert log_mean_weight(torch.full((3, 1), -math.inf)).item() == -math.inf


def test_a_bound_without_one_sample_is_finite_if_two_others_are_possible() -> None:
    log_weights = torch.tensor([[-math.inf], [0.0], [math.log(2.0)]], dtype=torch.float64)
    expected = [[math.log(3 + math.sqrt(2)) - math.log(3)], [math.log(2 / 3)], [math.log(1 / 3)]]
    torch.testing.assert_close(leave_one_out_bounds(log_weights), torch.tensor(expected, dtype=torch.float64))


@given(log_weight_matrices(), st.floats(-1000, 1000))
def test_log_mean_weight_is_that_of_a_plain_mean_and_shifts_with_the_weights(log_weights: Tensor, shift: float) -> None:
    mean = log_mean_weight(log_weights)
    assert torch.allclose(mean, log_weights.exp().mean(0).log(), rtol=1e-9)
    assert torch.allclose(log_mean_weight(log_weights + shift), mean + shift, rtol=0, atol=1e-9)
    assert (mean <= log_weights.max(0).values + 1e-9).all()
    assert (mean >= log_weights.max(0).values - math.log(len(log_weights)) - 1e-9).all()


@pytest.mark.parametrize("function", [effective_sample_size, log_mean_weight])
def test_further_dimensions_are_a_batch(function: Callable[[Tensor], Tensor]) -> None:
    log_weights = torch.randn(5, 2, 3)
    assert torch.allclose(function(log_weights)[1, 2], function(log_weights[:, 1, 2]))
