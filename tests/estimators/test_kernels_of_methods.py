"""Methods with chains are a kernel and a choice of the states that the gradient uses."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

from helpers.significance import assert_mean
from helpers.small_models import EXAMPLES, Example, one_layer, two_layers
from jsa import JSA, Estimator, Learner, PersistentEstimator, Stage
from jsa.errors import UsageError
from jsa.estimators import Hybrid, MarkovianScoreClimbing, RaoBlackwellJSA
from jsa.kernels import Block, ConditionalImportance, Cycle, Independence, MetropolisHastings, Repeat
from jsa.testing.gradients import place_chains, repeated

WHOLE = MetropolisHastings(Independence())
BLOCK = MetropolisHastings(Block(0.4))
LATENT = one_layer().model.latent
Make = Callable[..., PersistentEstimator]


def three_steps(make: Make, example: Example) -> list[torch.Tensor]:
    """The losses of steps in both stages."""
    torch.manual_seed(0)
    estimator = make(example.model.latent, len(example.batch))
    losses = [estimator(example.model, example.batch).loss for _ in range(2)]
    estimator.stage = Stage.PERSISTENT
    return [*losses, estimator(example.model, example.batch).loss]


@pytest.mark.parametrize(
    ("named", "kernel", "gradient"),
    [
        (JSA, Repeat(WHOLE, 2), "visited"),
        (RaoBlackwellJSA, Repeat(WHOLE, 2), "rao-blackwell"),
        (Hybrid, Repeat(WHOLE, 2), "conditional-importance"),
        (MarkovianScoreClimbing, ConditionalImportance(2), "conditional-importance"),
    ],
)
def test_a_method_is_a_combination_under_a_name(
    example: Example, named: type[PersistentEstimator], kernel: Any, gradient: Any
) -> None:
    for other in (JSA, RaoBlackwellJSA, Hybrid, MarkovianScoreClimbing):
        combined = three_steps(lambda *taken, other=other: other(*taken, kernel=kernel, gradient=gradient), example)
        assert combined == three_steps(named, example)


def test_the_last_state_counts_alone() -> None:
    example = two_layers()
    batch = repeated(example.batch, 100)
    estimator = JSA(example.model.latent, len(batch), kernel=Cycle(WHOLE, BLOCK), gradient="last", stage=2)
    estimate = estimator(example.model, batch)
    ends, _ = estimator.chains.read(batch.row_numbers, torch.float64)
    expected = example.model.log_joint(batch, ends) + example.model.posterior(batch).log_prob(ends)
    assert torch.allclose(estimate.loss, -expected.mean(), rtol=1e-12)
    other = JSA(example.model.latent, len(batch), kernel=Cycle(WHOLE, BLOCK), gradient="visited", stage=2)
    assert not torch.allclose(other(example.model, batch).loss, -expected.mean(), rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: JSA(LATENT, 3, 2, kernel=WHOLE), "give either particles or kernel"),
        (lambda: JSA(LATENT, 3, particles=5, kernel=WHOLE), "give either particles or kernel"),
        (lambda: RaoBlackwellJSA(LATENT, 3, kernel=BLOCK), "the gradient rao-blackwell weighs independent draws of q"),
        (
            lambda: Hybrid(LATENT, 3, kernel=Cycle(WHOLE, BLOCK)),
            "the gradient conditional-importance weighs independent",
        ),
        (lambda: JSA(LATENT, 3, gradient=wrong("lst")), "did you mean 'last'"),
        (lambda: JSA(LATENT, 3, kernel=wrong(Block())), "the kernel of JSA is one of jsa.kernels, .* not Block"),
        (
            lambda: JSA(LATENT, 3, kernel=MetropolisHastings(Block(kinds=["gaussian"]))),
            "Block moves gaussian variables, but the latent space has none",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make: Callable[[], Estimator], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        make()


def wrong(value: Any) -> Any:
    """A value of a wrong type, on purpose."""
    return value


def test_blocks_of_a_posterior_without_conditionals_are_refused_at_the_first_step() -> None:
    example = EXAMPLES["torch-posterior"]()
    with pytest.raises(UsageError, match="Block redraws some variables from the conditionals"):
        JSA(LATENT, 3, kernel=BLOCK)(example.model, example.batch)


def adapting() -> JSA:
    return JSA(LATENT, 300, kernel=Repeat(MetropolisHastings(Block(acceptance=0.9)), 3), gradient="last")


def size_of(estimator: JSA) -> float:
    return float(estimator.get_buffer("kernel.kernel.proposal.size"))


def test_a_size_is_adapted_in_the_training_of_stage_one_only() -> None:
    example = one_layer()
    batch = repeated(example.batch, 100)
    estimator = adapting()
    start = size_of(estimator)
    estimator.estimate_from(example.model, batch, None)
    estimator.eval()(example.model, batch)
    assert size_of(estimator) == start
    estimator.train()(example.model, batch)
    adapted = size_of(estimator)
    assert adapted != start
    estimator.stage = Stage.PERSISTENT
    for _ in range(3):
        estimator(example.model, batch)
    assert size_of(estimator) == adapted


def test_an_adapted_size_is_saved_and_training_goes_on_alike() -> None:
    example = one_layer()
    batch = repeated(example.batch, 100)
    learner = Learner(example.model, adapting())
    for _ in range(5):
        learner(batch)
    again = Learner(copy.deepcopy(example.model), adapting())
    assert size_of(again.estimator) != size_of(learner.estimator)  # type: ignore[arg-type]
    again.load_state_dict(copy.deepcopy(learner.state_dict()))
    losses = []
    for one in (learner, again):
        torch.manual_seed(1)
        losses.append([float(one(batch).loss.detach()) for _ in range(3)] + [size_of(one.estimator)])  # type: ignore[arg-type]
    assert losses[0] == losses[1]


def test_only_a_size_that_adapts_is_learned() -> None:
    assert adapting().learns
    assert not JSA(LATENT, 3, kernel=BLOCK).learns


def test_the_bound_of_blocks_is_that_of_draws_of_q() -> None:
    """In stage II, where no proposal is a whole state, a draw of q stands in; the states' own weights are higher."""
    example = one_layer()
    exact, copies = example.exact, 5_000
    batch = repeated(example.batch, copies)
    estimator = JSA(LATENT, len(batch), kernel=BLOCK, stage=2)
    place_chains(estimator, example.model, example.batch, copies)
    found = [estimator(example.model, batch).objective for _ in range(40)]
    bound = (exact.inference * exact.log_weights).sum(0).mean()
    assert_mean(torch.stack(found), bound)
    assert (exact.posterior * exact.log_weights).sum(0).mean() > bound + 0.1


def test_each_kernel_has_its_figures() -> None:
    example = two_layers()
    batch = repeated(example.batch, 500)
    estimator = JSA(example.model.latent, len(batch), kernel=Cycle(WHOLE, Repeat(BLOCK, 4)), gradient="last", stage=2)
    place_chains(estimator, example.model, example.batch, 500)
    before, _ = estimator.chains.read(batch.row_numbers)
    told = estimator(example.model, batch).diagnostics
    after, _ = estimator.chains.read(batch.row_numbers)
    changed = float((before != after).sum(-1).double().mean())
    assert float(told["changed_per_evaluation"]) == pytest.approx(changed / 6)
    both = 0.2 * told["independence_acceptance"] + 0.8 * told["block_acceptance"]
    assert float(told["acceptance"]) == pytest.approx(float(both))
    assert told["block_acceptance"] > told["independence_acceptance"]
    assert told["block_changed"] > 0


def test_a_block_that_is_redrawn_as_it_was_is_no_move() -> None:
    """Its acceptance is certain, and a chain that only does so stands still."""
    example = one_layer()
    batch = repeated(example.batch, 200)
    estimator = JSA(LATENT, len(batch), kernel=MetropolisHastings(Block(0.05)), stage=2)
    place_chains(estimator, example.model, example.batch, 200)
    before, _ = estimator.chains.read(batch.row_numbers)
    told = estimator(example.model, batch).diagnostics
    after, _ = estimator.chains.read(batch.row_numbers)
    same = (before == after).all(-1)
    assert torch.equal(estimator.chains.age(batch.row_numbers) > 0, same)
    assert told["acceptance"] > 1 - same.double().mean()


def test_an_estimator_tells_its_kernel() -> None:
    assert repr(JSA(LATENT, 3, kernel=Repeat(BLOCK, 4), gradient="last")) == (
        "JSA(3 bernoulli variables, rows=3, stage=FRESH, kernel=Repeat(MetropolisHastings(Block(size=0.4)), 4), "
        "gradient='last')"
    )
    assert repr(JSA(LATENT, 3)) == "JSA(3 bernoulli variables, rows=3, particles=2, stage=FRESH)"
