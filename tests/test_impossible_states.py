"""States of probability zero among those drawn: finite where the mathematics is, and else an error with the row."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from helpers.extreme_models import DTYPES, Changed, in_precision, sound_step, stepped
from helpers.methods import estimator_of, example_of
from jsa import Batch
from jsa.errors import NumericalError
from jsa.importance import leave_one_out_bounds


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


def impossible_at_row_1(joint: Tensor, rows: Batch, h: Tensor) -> Tensor:
    """No probability at row 1 where the first number of a state is zero."""
    return torch.where((rows.index == 1) & (h[..., 0] < 0.5), -math.inf, joint)


def test_a_bound_without_one_sample_is_finite_if_two_others_are_possible() -> None:
    log_weights = torch.tensor([[-math.inf], [0.0], [math.log(2.0)]], dtype=torch.float64)
    expected = [[math.log(3 + math.sqrt(2)) - math.log(3)], [math.log(2 / 3)], [math.log(1 / 3)]]
    torch.testing.assert_close(leave_one_out_bounds(log_weights), torch.tensor(expected, dtype=torch.float64))


def test_vimco_is_finite_where_two_of_the_samples_are_possible(dtype: torch.dtype) -> None:
    model, batch = in_precision(example_of("vimco"), dtype)
    changed = Changed(model, impossible_at_row_1)
    estimator = estimator_of("vimco", changed, batch, particles=40)
    estimate = sound_step("vimco", changed, batch, estimator)
    assert (estimate.log_weights == -math.inf).any()


@pytest.mark.parametrize("name", ["hybrid", "msc", "rws"])
def test_a_row_without_any_possible_state_is_named(name: str, dtype: torch.dtype) -> None:
    model, batch = in_precision(example_of(name), dtype)
    changed = Changed(model, lambda joint, rows, h: torch.where(rows.index == 1, -math.inf, joint))
    with pytest.raises(
        NumericalError, match="the model gives probability zero to row 1 with every state that was drawn"
    ):
        stepped(name, changed, batch)
