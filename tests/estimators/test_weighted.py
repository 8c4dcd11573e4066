"""The loss of weighted states: the same by one differentiated pass and by two, and never more work than needed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from helpers.extreme_models import Changed
from helpers.recorded_states import recorded_states
from helpers.small_models import Example, gradients, largest_difference, one_layer, torch_posterior
from jsa import JSA, Batch
from jsa.estimators.weighted import weighted_loss
from jsa.model_calls import EvaluatedStates, evaluate, posterior_of

CANDIDATES = 6


def weights_for(rows: int, counting: int) -> Tensor:
    """Weights of which so many a row count; one is too small to."""
    weights = torch.rand(CANDIDATES, rows, dtype=torch.float64) + 0.1
    weights[counting:] = 0
    weights[counting : counting + 1] = 1e-200
    return weights


def evaluated_states(example: Example, *, graph: bool) -> EvaluatedStates:
    torch.manual_seed(1)
    posterior = posterior_of(example.model, example.batch)
    with torch.set_grad_enabled(graph):
        return evaluate(example.model, example.batch, posterior, posterior.sample((CANDIDATES,)))


def counts(seen: list[tuple[Tensor, bool]]) -> list[int]:
    """How many states each evaluation was of, negative where it kept a graph."""
    return [h[..., 0].numel() * (-1 if graph else 1) for h, graph in seen]


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("counting", [1, 3, 5])
def test_loss_is_the_weighted_mean(example: Example, counting: int, graph: bool) -> None:
    weights = weights_for(len(example.batch), counting)
    evaluated = evaluated_states(example, graph=graph)
    log_inference = example.model.posterior(example.batch).log_prob(evaluated.h)
    log_joint = example.model.log_joint(example.batch, evaluated.h)
    expected = -(weights * (log_joint + 0.5 * log_inference)).sum(0).mean()
    found = weighted_loss(example.model, example.batch, evaluated, weights, inference_scale=0.5).loss
    assert torch.allclose(found, expected, atol=1e-12, rtol=0)
    assert largest_difference(*(gradients(example.model, loss) for loss in (found, expected))) < 1e-12


@pytest.mark.parametrize(("counting", "passes"), [(1, 1), (3, 1), (4, 0), (6, 0)])
def test_a_graph_is_used_where_that_is_less_work(example: Example, counting: int, passes: int) -> None:
    evaluated = evaluated_states(example, graph=True)
    states = recorded_states(example.model)
    weighted_loss(example.model, example.batch, evaluated, weights_for(len(example.batch), counting))
    assert counts(states) == [-counting * len(example.batch)] * passes


def test_only_states_that_count_are_differentiated(example: Example) -> None:
    evaluated = evaluated_states(example, graph=False)
    states = recorded_states(example.model)
    weights = weights_for(len(example.batch), 2)
    weights[:, 1] = 0
    weighted_loss(example.model, example.batch, evaluated, weights)
    assert counts(states) == [-2 * (len(example.batch) - 1)]


def test_a_state_of_probability_zero_is_not_differentiated() -> None:
    """Where log p is minus infinity its slope may be no number, and zero times that is none either."""
    example, scale = one_layer(), torch.nn.Parameter(torch.ones(()))

    def with_an_impossible_state(joint: Tensor, batch: Batch, h: Tensor) -> Tensor:
        impossible = torch.zeros(h.shape[:-1])
        # Among all candidates: those that count come as one sample of more rows.
        if len(h) > 1:
            impossible[0] = 1
        return joint + (scale * (1 - impossible)).log()

    example = Example(Changed(example.model, with_an_impossible_state), example.batch)
    evaluated = evaluated_states(example, graph=True)
    weights = torch.ones_like(evaluated.log_weights)
    weights[0] = 0
    weighted_loss(example.model, example.batch, evaluated, weights).loss.backward()
    assert bool(torch.as_tensor(scale.grad).isfinite())


def test_a_posterior_that_cannot_take_rows_gives_the_same() -> None:
    ours, theirs = one_layer(), torch_posterior()
    weights = weights_for(len(ours.batch), 2)
    states = ours.model.posterior(ours.batch).sample((CANDIDATES,))
    found = []
    for model, batch in ((ours.model, ours.batch), (theirs.model, theirs.batch)):
        evaluated = evaluate(model, batch, posterior_of(model, batch), states)
        loss = weighted_loss(model, batch, evaluated, weights).loss
        found.append([loss, *gradients(model, loss).values()])
    for first, second in zip(*found, strict=True):
        assert (first - second).abs().max() < 1e-12


def test_the_share_that_counted_decides_the_next_step() -> None:
    example = one_layer()
    estimator = JSA(example.model.latent, rows=len(example.batch), particles=30)
    states = recorded_states(example.model)
    for share, expected in ((1.0, False), (0.1, True)):
        estimator.counting_share.fill_(share)
        states.clear()
        estimator(example.model, example.batch)
        assert (counts(states)[0] > 0) is expected
    assert 0 < float(estimator.counting_share) < 1
    assert "counting_share" in estimator.state_dict()


def test_a_row_that_is_taken_twice_is_computed_once() -> None:
    batch = Batch(torch.eye(4), torch.arange(4))
    seen = []

    def double(rows: Batch) -> Tensor:
        seen.append(len(rows))
        return 2 * rows.x

    taken = batch.take(torch.tensor([3, 3, 1])).take(torch.tensor([0, 1, 2, 2]))
    assert torch.equal(taken.for_each_row(double), 2 * taken.x)
    assert seen == [4]
