"""What the published program does otherwise: it is as wrong as it is said to be."""

from __future__ import annotations

import pytest
import torch

from helpers.small_models import one_layer
from jsa.errors import UsageError
from jsa.estimators.registry import estimator_class
from jsa.experiments.worker import STALE_WEIGHT, StaleWeightJSA, published_methods, stale_weight_path
from jsa.importance import independence_path


def test_the_path_is_that_of_the_published_loop() -> None:
    torch.manual_seed(0)
    log_weights, uniforms = torch.randn(7, 500).double(), torch.rand(6, 500).double()
    path = stale_weight_path(log_weights, uniforms)
    for row in range(500):
        state = 0
        for move in range(6):
            if uniforms[move, row].log() < log_weights[move + 1, row] - log_weights[0, row]:
                state = move + 1
            assert path[move, row] == state
    assert not torch.equal(stale_weight_path(log_weights, uniforms), independence_path(log_weights, uniforms))


def test_one_move_is_right() -> None:
    torch.manual_seed(0)
    log_weights, uniforms = torch.randn(2, 500).double(), torch.rand(1, 500).double()
    assert torch.equal(stale_weight_path(log_weights, uniforms), independence_path(log_weights, uniforms))


def test_it_is_known_to_the_experiments_only() -> None:
    with pytest.raises(UsageError, match="there is no estimator 'jsa-stale-weight'"):
        estimator_class(STALE_WEIGHT)
    with published_methods():
        assert estimator_class(STALE_WEIGHT) is StaleWeightJSA


def test_it_makes_estimates() -> None:
    example = one_layer()
    estimator = StaleWeightJSA(example.model.latent, rows=len(example.batch), particles=5, stage=2)
    estimate = estimator(example.model, example.batch)
    estimate.loss.backward()
    assert 0 <= estimate.diagnostics["acceptance"] <= 1
