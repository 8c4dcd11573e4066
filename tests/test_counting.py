"""States that pass through a joint density are counted once, by whichever method they pass."""

from __future__ import annotations

import torch
from torch import Tensor

from helpers.small_models import Example, one_layer, torch_posterior, two_layers
from jsa import Batch
from jsa.model_calls import counting


def states(example: Example, samples: int) -> Tensor:
    return example.model.posterior(example.batch).sample((samples,))


def test_each_method_counts_once() -> None:
    for example in (one_layer(), two_layers(), torch_posterior()):
        h = states(example, 5)
        with counting(example.model) as counter:
            example.model.log_joint(example.batch, h)
            assert counter.states == 15
            if hasattr(example.model, "log_joint_terms"):
                example.model.log_joint_terms(example.batch, h)
                assert counter.states == 30


def test_a_joint_that_does_without_its_terms_is_counted() -> None:
    example = two_layers()

    class Direct(type(example.model)):
        def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
            return h.sum(-1)

    example.model.__class__ = Direct
    with counting(example.model) as counter:
        example.model.log_joint(example.batch, states(example, 2))
    assert counter.states == 6


def test_a_method_of_the_object_itself_is_put_back() -> None:
    example = one_layer()

    def own(batch: Batch, h: Tensor) -> Tensor:
        return h.sum(-1)

    example.model.log_joint = own
    with counting(example.model) as counter:
        assert torch.equal(example.model.log_joint(example.batch, torch.ones(2, 3, 3)), torch.full((2, 3), 3.0))
    assert counter.states == 6
    assert example.model.log_joint is own
    assert "log_joint_terms" not in vars(example.model)
