"""States that pass through a joint density are counted once, by whichever method they pass."""

from __future__ import annotations

from helpers.small_models import one_layer, torch_posterior, two_layers
from jsa.model_calls import counting, log_joint, log_joint_terms


def test_each_method_counts_once() -> None:
    for example, evaluations in ((one_layer(), 2), (two_layers(), 2), (torch_posterior(), 1)):
        h = example.model.posterior(example.batch).sample((5,))
        with counting() as counter:
            log_joint(example.model, example.batch, h)
            assert counter.states == 15
            log_joint_terms(example.model, example.batch, h)
            assert counter.states == 15 * evaluations
        log_joint(example.model, example.batch, h)
        assert counter.states == 15 * evaluations
