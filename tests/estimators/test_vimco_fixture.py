"""VIMCO against an outside implementation: whole gradients for given draws, frozen with their provenance."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from helpers.exact_expectations import FixedDraws
from jsa import Batch, Bernoulli, LatentSpace, LatentVariableModel, Layer, LayeredPosterior
from jsa.estimators import VIMCO, LeaveOneOut

FIXTURE = json.loads((Path(__file__).parents[1] / "fixtures" / "vimco_tensorflow_probability.json").read_text())


class Table(LatentVariableModel):
    """Two bits whose log-joint is looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.latent = LatentSpace.of(Layer("bernoulli", 2))
        self.logits = nn.Parameter(torch.tensor(FIXTURE["logits"], dtype=torch.float64))
        self.table = nn.Parameter(torch.tensor(FIXTURE["table"], dtype=torch.float64))

    def posterior(self, batch: Batch) -> LayeredPosterior:
        return LayeredPosterior(self.latent, Bernoulli(self.logits.expand(len(batch), -1)))

    def log_joint(self, batch: Batch, h: torch.Tensor) -> torch.Tensor:
        return self.table[h[..., 0].long(), h[..., 1].long()]


def differences(kind: type[VIMCO] | type[LeaveOneOut], record: dict[str, list[float]]) -> list[torch.Tensor]:
    """By how much of it each number of the gradient is off the recorded one."""
    draws = torch.tensor(record["draws"], dtype=torch.float64)
    model = Table()
    fixed = FixedDraws(model)
    fixed.draws = draws.unsqueeze(1)
    batch = Batch(torch.zeros(1, 1, dtype=torch.float64), torch.zeros(1, dtype=torch.int64))
    found = torch.autograd.grad(kind(particles=len(draws))(fixed, batch).loss, [model.logits, model.table])
    expected = [torch.tensor(record[f"gradient_of_{name}"], dtype=torch.float64) for name in ("logits", "table")]
    return [(one - other).abs() / (1e-2 + other.abs()) for one, other in zip(found, expected, strict=True)]


@pytest.mark.parametrize("record", FIXTURE["gradients"], ids=lambda record: f"n = {len(record['draws'])}")
def test_the_gradient_is_that_of_tensorflow_probability(record: dict[str, list[float]]) -> None:
    assert all((off <= 1e-8).all() for off in differences(VIMCO, record))


def test_leave_one_out_is_another_method() -> None:
    assert differences(LeaveOneOut, FIXTURE["gradients"][1])[0].max() > 0.01
