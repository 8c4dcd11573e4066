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


def gradients_of(estimator_kind: type[VIMCO] | type[LeaveOneOut], draws: torch.Tensor) -> Table:
    model = Table()
    fixed = FixedDraws(model)
    fixed.draws = draws.unsqueeze(1)
    batch = Batch(torch.zeros(1, 1, dtype=torch.float64), torch.zeros(1, dtype=torch.int64))
    estimator_kind(particles=len(draws))(fixed, batch).loss.backward()
    return model


@pytest.mark.parametrize("record", FIXTURE["gradients"], ids=lambda record: f"n = {len(record['draws'])}")
def test_the_gradient_is_that_of_tensorflow_probability(record: dict[str, list[float]]) -> None:
    draws = torch.tensor(record["draws"], dtype=torch.float64)
    model = gradients_of(VIMCO, draws)
    for parameter, key in ((model.logits, "gradient_of_logits"), (model.table, "gradient_of_table")):
        expected = torch.tensor(record[key], dtype=torch.float64)
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad, expected, rtol=1e-8, atol=1e-10)


def test_leave_one_out_is_another_method() -> None:
    record = FIXTURE["gradients"][1]
    model = gradients_of(LeaveOneOut, torch.tensor(record["draws"], dtype=torch.float64))
    assert model.logits.grad is not None
    assert not torch.allclose(
        model.logits.grad, torch.tensor(record["gradient_of_logits"], dtype=torch.float64), rtol=0.01
    )
