"""Block moves have the law of their definition and leave the posterior invariant, exactly; wrong twins do not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.kernel_matrices import (
    block_matrices,
    block_matrix,
    every_block,
    free_variables,
    posterior_of_row,
    states_of,
)
from helpers.known_rows import with_known
from helpers.methods import SMALL_MODELS
from helpers.missing_rows import with_gaps
from helpers.path_laws import transition_matrix
from helpers.significance import FAILURE_RATE, assert_frequencies, frequency_p_value
from helpers.small_models import EXAMPLES, Example, bits, network, one_layer, randomize, state_numbers, two_layers
from jsa import Batch, BeliefNetwork, LatentSpace, Layer
from jsa.errors import UsageError
from jsa.kernels import (
    Block,
    ConditionalImportance,
    Cycle,
    Independence,
    Kernel,
    MetropolisHastings,
    Mixture,
    Proposed,
    Repeat,
    Target,
)
from jsa.kernels.metropolis_hastings import log_ratio
from jsa.latent import Kind
from jsa.model_calls import EvaluatedStates
from jsa.testing.gradients import repeated

MODELS: dict[str, Callable[[], Example]] = {
    **{name: EXAMPLES[name] for name in EXAMPLES if name != "torch-posterior"},
    **{name: SMALL_MODELS[name] for name in ("mixed layers", "two categorical layers")},
    **{f"{name}, known": partial(with_known, name) for name in ("one-layer", "two-layers", "categorical")},
    "two-layers, gaps": partial(with_gaps, "two-layers"),
}
EXACT = 1e-15
"""The largest deviation in detailed balance."""

INDEPENDENCE = MetropolisHastings(Independence())


class ChosenByState(Block):
    """A block that depends on the state: of what was chosen, only the variables that are on."""

    def propose(self, target: Target, current: EvaluatedStates, chosen: Tensor, uniforms: Tensor) -> Proposed:
        return super().propose(target, current, chosen & (current.h[0] > 0), uniforms)


class WithoutReverse(Block):
    """The ratio lacks the density of the way back."""

    def propose(self, target: Target, current: EvaluatedStates, chosen: Tensor, uniforms: Tensor) -> Proposed:
        proposed = super().propose(target, current, chosen, uniforms)
        return replace(proposed, log_backward=torch.zeros_like(proposed.log_backward))


class FullRatio(Block):
    """The ratio of the full weights, although the layers below the block stay as they are."""

    def propose(self, target: Target, current: EvaluatedStates, chosen: Tensor, uniforms: Tensor) -> Proposed:
        states = super().propose(target, current, chosen, uniforms).states
        return Proposed(states, states.log_inference, current.log_inference)


class Unclamped(Block):
    """The known latents move, too."""

    def choose(self, target: Target) -> Tensor:
        return torch.ones(len(target.batch), target.model.latent.variables, dtype=torch.bool)

    def propose(self, target: Target, current: EvaluatedStates, chosen: Tensor, uniforms: Tensor) -> Proposed:
        ignoring = Target(target.model, target.batch.with_nothing_known(), beta=target.beta)
        ignoring.batch = target.batch
        return super().propose(ignoring, current, chosen, uniforms)


def imbalance(posterior: Tensor, matrix: Tensor) -> float:
    """The largest difference between the flow from one state to another and the flow back."""
    flow = posterior.unsqueeze(1) * matrix
    return float((flow - flow.T).abs().max())


@pytest.mark.parametrize("size", [0.05, 0.4, 1.0])
@pytest.mark.parametrize("name", MODELS)
def test_a_block_move_is_reversible_for_the_posterior(name: str, size: float) -> None:
    example, worst = MODELS[name](), 0.0
    for row in range(len(example.batch)):
        posterior, matrix = posterior_of_row(example, row), block_matrix(example, row, Block(size))
        assert (matrix >= 0).all()
        assert (matrix.sum(1) - 1).abs().max() < 1e-14
        assert (posterior @ matrix - posterior).abs().max() < 1e-14
        # It moves: no second eigenvalue of one.
        assert matrix.diagonal().min() < 1
        worst = max(worst, imbalance(posterior, matrix))
    sys.stdout.write(f"\nBlock({size}) | {name:26} | largest imbalance {worst:.1e}\n")
    assert worst < EXACT


@pytest.mark.parametrize(
    ("twin", "name"),
    [
        (ChosenByState, "one-layer"),
        (WithoutReverse, "one-layer"),
        (FullRatio, "two-layers"),
        (WithoutReverse, "categorical"),
    ],
)
def test_wrong_twins_are_not_invariant(twin: type[Block], name: str) -> None:
    example, change = MODELS[name](), 0.0
    for row in range(len(example.batch)):
        posterior, matrix = posterior_of_row(example, row), block_matrix(example, row, twin(0.4))
        change = max(change, float((posterior @ matrix - posterior).abs().max()))
    sys.stdout.write(f"\ntwin: {twin.__name__} | {name} | max |p T - p| = {change:.1e}\n")
    assert change > 1e-3


@pytest.mark.parametrize("beta", [0.3, 0.8])
@pytest.mark.parametrize("name", ["one-layer", "two-layers", "mixed layers"])
def test_at_another_temperature_the_bridge_is_invariant(name: str, beta: float) -> None:
    example = MODELS[name]()
    exact = example.exact
    bridge = (beta * exact.log_joint + (1 - beta) * exact.log_inference).softmax(0)
    for row in range(len(example.batch)):
        assert imbalance(bridge[:, row], block_matrix(example, row, Block(0.4), beta)) < EXACT
        assert imbalance(bridge[:, row], block_matrix(example, row, Block(0.4))) > 1e-4


def test_the_ratio_for_one_layer_is_that_of_the_full_weights() -> None:
    example = one_layer()
    target = Target(example.model, example.batch)
    with torch.no_grad():
        current = target.candidates(None)
        block = Block(0.5)
        proposed = block.propose(target, current, block.choose(target), torch.rand(1, 3, 3, dtype=torch.float64))
        difference = proposed.states.log_weights - current.log_weights
        assert (log_ratio(target, current, proposed) - difference).abs().max() < 1e-14
        full = example.model.posterior(example.batch).log_prob(proposed.states.h)
        assert (proposed.states.log_inference - full).abs().max() < 1e-14


@pytest.mark.parametrize("name", ["one-layer", "two-layers", "mixed layers", "two-layers, known"])
def test_blocks_are_chosen_with_their_probabilities(name: str) -> None:
    """Frequencies this far off have probability 1e-6 if all is right."""
    example, block = MODELS[name](), Block(0.3)
    latent = example.model.latent
    for row in range(len(example.batch)):
        law = list(every_block(latent, free_variables(example, row, block), 0.3))
        alike = repeated(example.batch.take(torch.tensor([row])), 5_000)
        chosen = block.choose(Target(example.model, alike))
        masks = torch.stack([mask for _, _, mask in law])
        same = (chosen.unsqueeze(1) == masks).all(-1)
        assert same.any(-1).all()
        assert_frequencies(same.long().argmax(-1), torch.tensor([chance for chance, _, _ in law], dtype=torch.float64))


def independence_matrix(example: Example, row: int) -> Tensor:
    exact = example.exact
    return transition_matrix(exact.inference[:, row], exact.log_weights[:, row])


BLOCK = MetropolisHastings(Block(0.4))
Definition = Callable[[Example, int], Tensor]
SAMPLED: list[tuple[str, Kernel, Definition]] = [
    ("Block", BLOCK, lambda example, row: block_matrix(example, row, Block(0.4))),
    ("Repeat", Repeat(BLOCK, 3), lambda example, row: block_matrix(example, row, Block(0.4)).matrix_power(3)),
    (
        "Cycle",
        Cycle(INDEPENDENCE, Repeat(BLOCK, 2)),
        lambda example, row: independence_matrix(example, row) @ block_matrix(example, row, Block(0.4)).matrix_power(2),
    ),
    (
        "Cycle twice",
        Repeat(Cycle(BLOCK, INDEPENDENCE), 2),
        lambda example, row: (block_matrix(example, row, Block(0.4)) @ independence_matrix(example, row)).matrix_power(
            2
        ),
    ),
]


def ends_of(kernel: Kernel, example: Example, row: int, chains: int) -> Sequence[Tensor]:
    """Where chains end that start at each state."""
    states = states_of(example, row)
    alike = repeated(example.batch.take(torch.tensor([row])), chains * len(states))
    start = states.repeat_interleave(chains, 0)
    with torch.no_grad():
        return state_numbers(example.model, kernel.move(Target(example.model, alike), start).last).split(chains)


@pytest.mark.parametrize("name", ["one-layer", "two-layers", "mixed layers"])
@pytest.mark.parametrize(("kernel", "definition"), [case[1:] for case in SAMPLED], ids=[case[0] for case in SAMPLED])
def test_sampled_moves_have_the_law_of_the_matrix(name: str, kernel: Kernel, definition: Definition) -> None:
    """Each state's frequencies are this far off with probability 1e-6 if all is right."""
    example = MODELS[name]()
    for row in range(len(example.batch)):
        for ends, expected in zip(ends_of(kernel, example, row, 1_000), definition(example, row), strict=True):
            assert_frequencies(ends, expected)


@pytest.mark.parametrize("twin", [ChosenByState, WithoutReverse])
def test_sampled_moves_of_wrong_twins_have_not(twin: type[Block]) -> None:
    example = one_layer()
    ends, expected = ends_of(MetropolisHastings(twin(0.4)), example, 0, 1_000), block_matrix(example, 0, Block(0.4))
    worst = min(frequency_p_value(found, law) for found, law in zip(ends, expected, strict=True))
    assert worst < FAILURE_RATE / 1_000


def test_a_cycle_is_invariant_and_not_reversible_and_a_mixture_is_both() -> None:
    example = two_layers()
    for row in range(len(example.batch)):
        posterior, block = posterior_of_row(example, row), block_matrix(example, row, Block(0.4))
        independence = independence_matrix(example, row)
        cycle, mixture = independence @ block, 0.3 * independence + 0.7 * block
        for matrix in (cycle, mixture):
            assert (posterior @ matrix - posterior).abs().max() < 1e-14
        assert imbalance(posterior, mixture) < EXACT
        assert imbalance(posterior, cycle) > 1e-4


def test_a_mixture_draws_its_kernels_with_their_probabilities() -> None:
    """All chains of a call move by the same kernel, so each of many calls gives one chain from each state."""
    example = one_layer()
    states = states_of(example, 0)
    target = Target(example.model, repeated(example.batch.take(torch.tensor([0])), len(states)))
    kernel = Mixture([(INDEPENDENCE, 3), (BLOCK, 7)])
    with torch.no_grad():
        ends = torch.stack([state_numbers(example.model, kernel.move(target, states).last) for _ in range(1_000)], 1)
    expected = 0.3 * independence_matrix(example, 0) + 0.7 * block_matrix(example, 0, Block(0.4))
    for found, law in zip(ends, expected, strict=True):
        assert_frequencies(found, law)
    wrong = 0.7 * independence_matrix(example, 0) + 0.3 * block_matrix(example, 0, Block(0.4))
    assert min(frequency_p_value(found, law) for found, law in zip(ends, wrong, strict=True)) < FAILURE_RATE


def test_adapting_for_ever_changes_the_distribution() -> None:
    """The power of freezing: sizes that follow the last acceptance leave the posterior, right as each of them is."""
    example = one_layer()
    posterior = posterior_of_row(example, 0)
    # A large block after each acceptance, a small one after each rejection: a chain on states and sizes.
    parts = [block_matrices(example, 0, Block(size)) for size in (1.0, 0.05)]
    both = torch.cat([torch.cat([accepted, torch.diag(rejected)], 1) for accepted, rejected in parts])
    stationary = both.matrix_power(4096)[0]
    drifted = stationary.unflatten(0, (2, -1)).sum(0)
    assert (drifted - posterior).abs().max() > 1e-3
    # Sizes that follow nothing stay with it.
    free = sum(0.5 * (accepted + torch.diag(rejected)) for accepted, rejected in parts)
    assert (posterior @ free - posterior).abs().max() < 1e-14


def mixed_kinds() -> Example:
    """Three bits, a variable of three classes, and two numbers."""
    latent = LatentSpace.of(Layer("bernoulli", 3), Layer("categorical", 1, classes=3), Layer("gaussian", 2))
    return Example(randomize(network(latent), 7, 0.5), bits(rows=3, width=4))


@pytest.mark.parametrize("kind", ["bernoulli", "categorical", "gaussian"])
def test_a_block_leaves_other_kinds_alone(kind: Kind) -> None:
    example = mixed_kinds()
    latent = example.model.latent
    batch = repeated(example.batch, 200)
    with torch.no_grad():
        moved = Repeat(MetropolisHastings(Block(1.0, kinds=[kind])), 5).move(Target(example.model, batch))
    for layer, where in zip(latent.layers, latent.slices, strict=True):
        differs = (moved.candidates[..., where] != moved.candidates[0, :, where]).any()
        assert bool(differs) == (layer.kind == kind)
    assert latent.contains(moved.last)


def test_blocks_of_all_kinds_move_them_all() -> None:
    example = mixed_kinds()
    with torch.no_grad():
        moved = Repeat(BLOCK, 20).move(Target(example.model, repeated(example.batch, 100)))
    differs = moved.last != moved.candidates[0]
    latent = example.model.latent
    assert all(differs[:, where].any() for where in latent.slices)
    by_layer = [
        differs[:, where].unflatten(-1, (layer.variables, -1))
        for layer, where in zip(latent.layers, latent.slices, strict=True)
    ]
    assert torch.equal(moved.changed(latent), sum(part.any(-1).sum(-1) for part in by_layer).double())
    assert example.model.latent.contains(moved.last)


def test_known_latents_never_move() -> None:
    example = with_known("two-layers")
    batch = repeated(example.batch, 200)
    with torch.no_grad():
        moved = Repeat(MetropolisHastings(Block(1.0)), 5).move(Target(example.model, batch))
        assert batch.agrees(moved.candidates).all()
        assert (moved.changed(example.model.latent) > 0).any()
        with pytest.raises(UsageError, match="contradicts the known values of row"):
            MetropolisHastings(Unclamped(1.0)).move(Target(example.model, batch))


def test_where_all_is_known_nothing_moves() -> None:
    example = one_layer()
    known = torch.tensor([[1.0, 0.0, 1.0]] * 3, dtype=torch.float64)
    batch = replace(example.batch, known=known)
    with torch.no_grad():
        assert torch.equal(BLOCK.move(Target(example.model, batch), times=3).last, known)


def test_a_state_without_weight_is_left_and_never_entered() -> None:
    example = one_layer()
    log_joint = example.model.log_joint
    vars(example.model)["log_joint"] = lambda batch, h: log_joint(batch, h).where(h[..., 0] == 0, -torch.inf)
    start = torch.tensor([[1.0, 0.0, 0.0]] * 300, dtype=torch.float64)
    batch = repeated(example.batch, 100)
    with torch.no_grad():
        moved = Repeat(MetropolisHastings(Block(1.0)), 30).move(Target(example.model, batch), start)
    rows = torch.arange(len(batch))
    outside = torch.stack([moved.candidates[place, rows, 0] for place in moved.path])
    assert outside[-1].mean() < 0.5
    assert (outside.diff(dim=0) <= 0).all()


def test_the_size_is_adapted_to_its_acceptance() -> None:
    torch.manual_seed(0)
    model = randomize(BeliefNetwork(Layer("bernoulli", 30), LatentSpace.of(Layer("bernoulli", 40))), 3, 0.7)
    batch = bits(rows=200, width=30)
    for start in (0.02, 1.0):
        block = Block(start, acceptance=0.25)
        kernel, chains = MetropolisHastings(block), None
        accepted = []
        with torch.no_grad():
            for step in range(300):
                moved = kernel.move(Target(model, batch), chains, adapt=True)
                chains = moved.last
                accepted += [float(moved.acceptance)] if step >= 200 else []
        assert 0.22 < sum(accepted) / len(accepted) < 0.28
        assert 0.02 < float(block.size) < 0.9


def test_a_trajectory_of_several_kernels_is_consistent() -> None:
    example = two_layers()
    batch = repeated(example.batch, 50)
    target = Target(example.model, batch)
    kernel = Cycle(BLOCK, INDEPENDENCE, Repeat(BLOCK, 2), ConditionalImportance(2))
    with torch.no_grad():
        start = target.posterior.sample((1,))[0]
        moved = kernel.move(target, start)
        assert torch.equal(moved.candidates[0], start)
        assert moved.candidates.shape[0] == 1 + kernel.proposals == target.evaluations
        assert moved.fresh == (2, 5, 6)
        expected = example.model.log_joint(batch, moved.candidates)
        assert torch.allclose(moved.log_weights, expected - target.posterior.log_prob(moved.candidates), atol=1e-12)
        # Each part begins where the one before it ended.
        for before, after in zip(moved.parts, moved.parts[1:], strict=False):
            assert torch.equal(before.last, after.candidates[0])
        rows = torch.arange(len(batch))
        visited = [moved.candidates[place, rows] for place in moved.path]
        assert all(torch.equal(state, part.last) for state, part in zip(visited, moved.parts, strict=True))
        assert set(moved.by_kernel()) == {"block", "independence", "conditional_importance"}


WRONG: Any = "bits"
A_KERNEL: Any = BLOCK


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Block(1.5), "a block cannot be empty, or larger than its layer"),
        (lambda: Block(0), "a block cannot be empty, or larger than its layer"),
        (lambda: Block(acceptance=1.0), "acceptance must be above 0 and below 1, not 1.0"),
        (lambda: Block(kinds=[WRONG]), "the kinds of a Block are some of bernoulli, categorical, gaussian"),
        (lambda: Cycle(), "a Cycle needs one kernel or more"),
        (lambda: Mixture({}), "a Mixture needs kernels with probabilities"),
        (lambda: Mixture({BLOCK: -1.0, INDEPENDENCE: 2.0}), "a Mixture needs kernels with probabilities"),
        (lambda: Repeat(BLOCK, 0), "times must be 1 or more"),
        (lambda: ConditionalImportance(0), "proposals must be 1 or more"),
        (lambda: MetropolisHastings(A_KERNEL), "MetropolisHastings needs a proposal, not MetropolisHastings"),
        (lambda: Target(one_layer().model, one_layer().batch, beta=0), "beta must be above 0 and at most 1"),
    ],
)
def test_wrong_settings_are_refused(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        make()


def test_a_space_without_variables_to_move_is_refused() -> None:
    example = one_layer()
    kernel = Cycle(INDEPENDENCE, Repeat(MetropolisHastings(Block(kinds=["gaussian", "categorical"])), 2))
    sentence = (
        r"Block moves gaussian and categorical variables, but the latent space has none \(3 bernoulli variables\)"
    )
    with pytest.raises(UsageError, match=sentence):
        kernel.move(Target(example.model, example.batch))
    with pytest.raises(UsageError, match=sentence):
        kernel.check(example.model.latent)


def test_a_posterior_without_conditionals_is_refused() -> None:
    example = EXAMPLES["torch-posterior"]()
    with pytest.raises(UsageError, match="which a LayeredPosterior has but TorchPosterior does not"):
        BLOCK.move(Target(example.model, Batch(example.batch.x)))
