"""Annealed importance sampling: unbiased weights by any number of steps, by moves that leave their target invariant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from helpers.known_rows import KNOWN, with_known
from helpers.missing_rows import with_gaps
from helpers.significance import assert_frequencies, assert_mean
from helpers.small_models import EXAMPLES, Example, RowsInMemory, Wrapped, logits_of, state_numbers
from jsa import Batch, BeliefNetwork, Bernoulli, LatentSpace, Layer, annealed_likelihood, exact_likelihood, likelihood
from jsa.errors import NumericalError, UsageError
from jsa.evaluation.annealing import Chains, annealed_weights, inverse_temperatures, moved, with_one_changed
from jsa.model import LatentVariableModel, Posterior
from jsa.model_calls import evaluate, posterior_of
from jsa.posteriors import LayeredPosterior
from jsa.testing.gradients import repeated

SPACES = [
    LatentSpace.of(Layer("bernoulli", 3)),
    LatentSpace.of(Layer("bernoulli", 2), Layer("bernoulli", 1)),
    LatentSpace.of(Layer("categorical", 2, classes=3)),
    LatentSpace.of(Layer("categorical", 1, classes=4), Layer("bernoulli", 2)),
]


@pytest.mark.parametrize("latent", SPACES)
def test_one_variable_takes_any_other_value(latent: LatentSpace) -> None:
    states = latent.enumerate(torch.float64)
    variable: list[int] = []
    values: list[float] = []
    for layer in latent.layers:
        others = layer.classes - 1
        variable += [len(set(variable)) + number for number in range(layer.variables) for _ in range(others)]
        values += [(value + 0.5) / others for _ in range(layer.variables) for value in range(others)]
    for number, state in enumerate(states):
        h = state.expand(len(variable), -1)
        found = with_one_changed(latent, h, torch.tensor(variable), torch.tensor(values, dtype=torch.float64))
        assert latent.contains(found)
        numbers = (found.unsqueeze(1) == states).all(-1).long().argmax(-1)
        # Every neighbor once, and never the state itself: so the proposal is as probable the other way round.
        neighbors = [other for other, one in enumerate(states) if distance(latent, one, state) == 1]
        assert sorted(numbers.tolist()) == neighbors
        assert number not in neighbors


def distance(latent: LatentSpace, one: Tensor, other: Tensor) -> int:
    """How many variables differ."""
    parts = zip(latent.layers, latent.slices, strict=True)
    differs = [(one[where] != other[where]).unflatten(-1, (layer.variables, -1)).any(-1) for layer, where in parts]
    return int(torch.cat(differs).sum())


def test_the_last_uniform_is_no_class_too_many() -> None:
    latent = LatentSpace.of(Layer("categorical", 1, classes=256))
    nearly_one = torch.tensor([1 - 2.0**-24])
    found = with_one_changed(latent, torch.eye(256)[:1], torch.tensor([0]), nearly_one)
    assert int(found.argmax()) == 255


def test_temperatures_go_from_one_end_to_the_other() -> None:
    assert inverse_temperatures(1) == [0.0, 1.0]
    betas = inverse_temperatures(1000)
    assert (betas[0], betas[-1], len(betas)) == (0.0, 1.0, 1001)
    assert all(before < after for before, after in pairwise(betas))


def in_equilibrium(example: Example, beta: float, many: int) -> tuple[Chains, Tensor]:
    """Chains that follow q^(1 - beta) p^beta, and the probabilities of the states."""
    exact = example.exact
    target = (beta * exact.log_joint + (1 - beta) * exact.log_inference).softmax(0)
    numbers = torch.multinomial(target.t(), many, replacement=True).t()
    rows = torch.arange(len(example.batch))
    joint, inference = (part[numbers, rows] for part in (exact.log_joint, exact.log_inference))
    return Chains(exact.states[numbers], joint, inference), target


@pytest.mark.parametrize("kind", ["independent", "local"])
@pytest.mark.parametrize("beta", [0.3, 0.9])
def test_moves_leave_their_target_invariant(
    example: Example, beta: float, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains = after_a_move(example, beta, kind, monkeypatch)
    _, target = in_equilibrium(example, beta, 1)
    for row in range(len(example.batch)):
        assert_frequencies(state_numbers(example.model, chains.h[:, row]), target[:, row])


def after_a_move(example: Example, beta: float, kind: str, monkeypatch: pytest.MonkeyPatch) -> Chains:
    """Where chains stand that followed their target and moved once."""
    torch.manual_seed(1)
    before, _ = in_equilibrium(example, beta, 20_000)
    choose(monkeypatch, kind)
    with torch.no_grad():
        after = moved(example.model, example.batch, posterior_of(example.model, example.batch), before, beta)
    assert 0.02 < float((after.h != before.h).any(-1).double().mean()) < 0.98
    return after


def choose(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Makes every move one of this kind: the choice is the only number that is drawn by itself."""
    rand = torch.rand

    def chosen(size: Sequence[int], dtype: torch.dtype | None = None, device: torch.device | None = None) -> Tensor:
        return torch.tensor(float(kind == "local")) if size == () else rand(size, dtype=dtype, device=device)

    monkeypatch.setattr(torch, "rand", chosen)


@pytest.mark.parametrize("kind", ["independent", "local"])
def test_a_target_without_q_would_be_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: p^beta alone, which many programs anneal although they begin with q."""
    example, beta = EXAMPLES["one-layer"](), 0.3
    monkeypatch.setattr(Chains, "log_target", lambda chains, beta: beta * chains.log_joint)
    monkeypatch.setattr(Chains, "log_weights", property(lambda chains: chains.log_joint))
    with pytest.raises(AssertionError, match="frequencies this far off"):
        test_moves_leave_their_target_invariant(example, beta, kind, monkeypatch)


def weights(example: Example, steps: int, many: int = 40_000) -> Tensor:
    torch.manual_seed(2)
    with torch.no_grad():
        return annealed_weights(example.model, example.batch, many, inverse_temperatures(steps)).exp()


@pytest.mark.parametrize("steps", [1, 2, 12])
def test_the_mean_weight_is_the_likelihood(example: Example, steps: int) -> None:
    exact = example.exact.log_likelihood.exp()
    found = weights(example, steps)
    assert_mean(found, exact)
    # What makes the test sharp; a noisy estimate would pass any bound of standard errors.
    assert float((found.std(0) / exact).max()) / len(found) ** 0.5 < 0.05


def weighed_after_the_move(model: LatentVariableModel, batch: Batch, samples: int, betas: list[float]) -> Tensor:
    """The twin: each weight is taken at the state behind the move and not before it."""
    posterior = posterior_of(model, batch)
    first = evaluate(model, batch, posterior, *posterior.sample_with_log_prob((samples,)))
    chains, total = Chains(first.h, first.log_joint, first.log_inference), torch.zeros(())
    for before, beta in pairwise(betas):
        chains = moved(model, batch, posterior, chains, min(beta, 0.999))
        total = total + (beta - before) * chains.log_weights
    return total


def test_weights_behind_the_moves_would_be_noticed() -> None:
    example = EXAMPLES["one-layer"]()
    exact = example.exact.log_likelihood.exp()
    torch.manual_seed(2)
    with torch.no_grad():
        wrong = weighed_after_the_move(example.model, example.batch, 40_000, inverse_temperatures(12)).exp()
    with pytest.raises(AssertionError, match="standard errors off"):
        assert_mean(wrong, exact)


def test_one_step_is_importance_sampling(example: Example) -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        posterior = posterior_of(example.model, example.batch)
        expected = evaluate(example.model, example.batch, posterior, *posterior.sample_with_log_prob((7,))).log_weights
        torch.manual_seed(0)
        found = annealed_weights(example.model, example.batch, 7, inverse_temperatures(1))
    assert torch.equal(found, expected)


class Blind(Wrapped):
    """A model whose q has lost the posterior: it is certain of the wrong states."""

    def posterior(self, batch: Batch) -> Posterior:
        return LayeredPosterior(self.latent, Bernoulli(-4 * logits_of(Example(self.model, batch).layers)))


def blind() -> tuple[Blind, Tensor]:
    torch.manual_seed(3)
    model = BeliefNetwork(Layer("bernoulli", 12), LatentSpace.of(Layer("bernoulli", 8))).double()
    for parameter in model.parameters():
        parameter.data.mul_(4)
    return Blind(model), (torch.rand(20, 12) < 0.5).double()


def test_steps_find_what_samples_do_not() -> None:
    model, x = blind()
    exact = exact_likelihood(model, x).nll
    by_samples = likelihood(model, x, samples=1600).nll
    by_steps = annealed_likelihood(model, x, samples=8, steps=1_000)
    assert by_samples - exact > 3 * (by_steps.nll - exact)
    assert -0.1 < by_steps.nll - exact < 0.2
    assert (by_steps.samples, by_steps.annealing_steps, by_steps.rows) == (8, 1_000, 20)
    assert "(Monte Carlo, 8 samples of 1000 annealing steps)" in str(by_steps)


@pytest.mark.parametrize("make", [partial(with_gaps, "two-layers"), *(partial(with_known, name) for name in KNOWN)])
def test_gaps_are_summed_over_and_what_is_known_stays(make: Callable[[], Example]) -> None:
    example = make()
    rows = RowsInMemory(example.batch)
    found = annealed_likelihood(example.model, rows, samples=2_000, steps=5)
    assert abs(found.nll - exact_likelihood(example.model, rows).nll) < 5 * found.monte_carlo_error + 0.01


def test_it_is_repeatable_and_leaves_random_numbers_alone() -> None:
    example = EXAMPLES["two-layers"]()
    rows = RowsInMemory(repeated(example.batch, 5))
    before = torch.get_rng_state()
    done: list[int] = []
    first = annealed_likelihood(example.model, rows, 4, 5, seed=1, progress=done.append)
    assert torch.equal(torch.get_rng_state(), before)
    assert sum(done) == 15
    assert first == annealed_likelihood(example.model, rows, 4, 5, seed=1)
    assert first != annealed_likelihood(example.model, rows, 4, 5, seed=2)


class Broken(Wrapped):
    """A model whose density is no number when it is asked for the third time, which is behind the second move."""

    asked = 0

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        self.asked += 1
        return super().log_joint(batch, h) * (torch.nan if self.asked == 3 else 1)


GAUSSIAN = BeliefNetwork(Layer("bernoulli", 12), LatentSpace.of(Layer("gaussian", 2)))
ONE_AT_A_TIME = "annealing needs discrete latent variables, and some are Gaussian: use likelihood"

REFUSALS: list[tuple[Callable[[LatentVariableModel, Tensor], object], type[Exception], str]] = [
    (lambda model, x: annealed_likelihood(model, x, samples=0), UsageError, "samples must be 1 or more, not 0"),
    (lambda model, x: annealed_likelihood(model, x, steps=0), UsageError, "steps must be 1 or more, not 0"),
    (lambda model, x: annealed_likelihood(Broken(model), x, 1, 40), NumericalError, "log_joint is nan at row"),
    (lambda model, x: annealed_likelihood(GAUSSIAN, x.float()), UsageError, ONE_AT_A_TIME),
]


@pytest.mark.parametrize(("call", "error", "sentence"), REFUSALS)
def test_what_cannot_be_annealed_is_said(call: Callable[..., object], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        call(*blind())
