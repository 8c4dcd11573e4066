"""What all relaxed methods promise, biased or not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from helpers.conformance.relaxed import RELAXABLE
from helpers.relaxed_examples import BIASED, made, small
from helpers.small_models import Example, gradients
from jsa import Batch
from jsa.estimators import Estimator
from jsa.estimators.concrete import Concrete
from jsa.estimators.gumbel_softmax import GumbelSoftmax
from jsa.estimators.muprop import MuProp
from jsa.estimators.rebar import Rebar
from jsa.estimators.relax import Relax
from jsa.estimators.straight_through import StraightThrough

ANY_KIND = pytest.mark.parametrize("kind", [Concrete, GumbelSoftmax, StraightThrough, Rebar, Relax, MuProp])


def any_kind(kind: type[Estimator], example: Example) -> Estimator:
    return kind(particles=2) if kind in BIASED.values() else made(kind, example, particles=2)


@ANY_KIND
@pytest.mark.parametrize("name", RELAXABLE)
def test_single_precision_agrees_with_double(kind: type[Estimator], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.rand

    def same_numbers(*size: object, dtype: torch.dtype, device: torch.device) -> Tensor:
        return real(*size, dtype=torch.float64, device=device).to(dtype)

    monkeypatch.setattr(torch, "rand", same_numbers)
    found = []
    for dtype in (torch.float64, torch.float32):
        example = small(name)
        estimator = any_kind(kind, example).to(dtype)
        model, batch = example.model.to(dtype), example.batch
        context = None if batch.context is None else batch.context.to(dtype)
        torch.manual_seed(7)
        loss = estimator(model, Batch(batch.x.to(dtype), batch.index, context)).loss
        assert loss.dtype == dtype
        parameters = [*model.parameters(), *estimator.parameters()]
        found.append(torch.cat([gradient.flatten() for gradient in torch.autograd.grad(loss, parameters)]))
    exact, single = found[0], found[1].double()
    assert (single - exact).norm() < 1e-4 * exact.norm()


@ANY_KIND
def test_a_batch_of_one(kind: type[Estimator]) -> None:
    for name in RELAXABLE:
        example = small(name)
        one = example.batch.take(torch.tensor([1]))
        estimate = any_kind(kind, example)(example.model, one)
        assert estimate.log_weights.shape == (2, 1)
        assert all(value.isfinite().all() for value in gradients(example.model, estimate.loss).values())


@ANY_KIND
def test_the_model_is_left_as_it_was(kind: type[Estimator]) -> None:
    example = small("two-layers")
    any_kind(kind, example)(example.model, example.batch)
    assert all(parameter.requires_grad and parameter.grad is None for parameter in example.model.parameters())
