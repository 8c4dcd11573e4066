"""The kernels move as they are defined, and their invariant distribution is the posterior, exactly."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch

from helpers.path_laws import Rule, transition_matrix
from helpers.path_laws import kernel as kernel_of
from helpers.significance import assert_frequencies
from helpers.small_models import Enumerated, Example, state_numbers
from jsa.experiments.worker import stale_weight_path
from jsa.importance import independence_path
from jsa.kernels import ConditionalImportance, Independence, Kernel, MetropolisHastings, Repeat, Target
from jsa.model_calls import posterior_of
from jsa.testing.gradients import repeated


@pytest.fixture
def exact(example: Example) -> Enumerated:
    return example.exact


def columns(exact: Enumerated) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Posterior, inference model and log-weights of each row of the batch."""
    return list(zip(exact.posterior.T, exact.inference.T, exact.log_weights.T, strict=True))


def importance_matrix(inference: torch.Tensor, log_weights: torch.Tensor) -> torch.Tensor:
    """A move of two proposals: the state and all pairs of them, each candidate in proportion to its weight."""
    candidates = torch.cartesian_prod(*[torch.arange(len(inference))] * 3)
    probability = inference[candidates[:, 1:]].prod(1, keepdim=True) * log_weights[candidates].softmax(1)
    matrix = torch.zeros(len(inference), len(inference), dtype=torch.float64)
    return matrix.index_put_((candidates[:, :1].expand_as(candidates), candidates), probability, accumulate=True)


def three_moves(inference: torch.Tensor, log_weights: torch.Tensor) -> torch.Tensor:
    return transition_matrix(inference, log_weights).matrix_power(3)


Definition = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
INDEPENDENCE = MetropolisHastings(Independence())
KERNELS: list[tuple[Kernel, Definition]] = [
    (INDEPENDENCE, transition_matrix),
    (Repeat(INDEPENDENCE, 3), three_moves),
    (ConditionalImportance(2), importance_matrix),
]


@pytest.mark.parametrize("definition", [transition_matrix, importance_matrix])
def test_a_move_is_reversible_for_the_posterior(exact: Enumerated, definition: Definition) -> None:
    for posterior, inference, log_weights in columns(exact):
        matrix = definition(inference, log_weights)
        assert (matrix >= 0).all()
        assert (matrix.sum(1) - 1).abs().max() < 1e-12
        flow = posterior.unsqueeze(1) * matrix
        assert (flow - flow.T).abs().max() < 1e-12
        assert (posterior @ matrix - posterior).abs().max() < 1e-12


@pytest.mark.parametrize("moves", [1, 2, 3])
def test_the_path_makes_moves_of_the_transition_matrix(exact: Enumerated, moves: int) -> None:
    for _, inference, log_weights in columns(exact):
        expected = transition_matrix(inference, log_weights).matrix_power(moves)
        found = kernel_of(independence_path, inference, log_weights, moves)
        assert (found - expected).abs().max() < 1e-12


@pytest.mark.parametrize("moves", [2, 3])
@pytest.mark.parametrize(("rule", "invariant"), [(independence_path, True), (stale_weight_path, False)])
def test_stale_weights_break_the_invariance(exact: Enumerated, rule: Rule, invariant: bool, moves: int) -> None:
    """The power of the check: comparing each proposal with the initial weight does not pass it."""
    change = max(
        float((posterior @ kernel_of(rule, inference, log_weights, moves) - posterior).abs().max())
        for posterior, inference, log_weights in columns(exact)
    )
    sys.stdout.write(f"\n{rule.__name__}, n = {moves}: max |p T^n - p| = {change:.2e}\n")
    assert change < 1e-12 if invariant else change > 1e-3


@pytest.mark.parametrize(("kernel", "definition"), KERNELS)
def test_sampled_moves_have_the_law_of_the_matrix(
    example: Example, exact: Enumerated, kernel: Kernel, definition: Definition
) -> None:
    chains = 2_000
    for row, (_, inference, log_weights) in enumerate(columns(exact)):
        expected = definition(inference, log_weights)
        alike = repeated(example.batch.take(torch.tensor([row])), chains * len(exact.states))
        start = torch.arange(len(exact.states)).repeat_interleave(chains)
        moved = kernel.move(Target(example.model, alike), exact.states[start])
        for state, ends in enumerate(state_numbers(example.model, moved.last).split(chains)):
            assert_frequencies(ends, expected[state])


def test_trajectory_is_consistent_and_has_no_graph(example: Example) -> None:
    posterior = posterior_of(example.model, example.batch)
    initial = posterior.sample((1,))[0]
    moved = INDEPENDENCE.move(Target(example.model, example.batch, posterior), initial, 4)
    assert torch.equal(moved.candidates[0], initial)
    joint = example.model.log_joint(example.batch, moved.candidates)
    assert torch.equal(moved.log_weights, joint - posterior.log_prob(moved.candidates))
    assert torch.equal(moved.multiplicities.sum(0), torch.full((len(example.batch),), 4))
    for row, path in enumerate(moved.path.T.tolist()):
        # The whole state moves: all layers of the last state are those of one candidate.
        assert torch.equal(moved.last[row], moved.candidates[path[-1], row])
        assert moved.acceptances[row] == len(set(path) - {0})
    assert not moved.log_weights.requires_grad
    assert not moved.candidates.requires_grad
