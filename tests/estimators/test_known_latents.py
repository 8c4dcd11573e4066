"""Latent variables that are known: every method learns p(x, known), and what is known is never drawn otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from helpers.conformance.comparison import CASES
from helpers.known_rows import KNOWN, X, with_known
from helpers.methods import estimator_of
from helpers.small_models import EXAMPLES, Example, Wrapped, by_row, enumerated, gradients_of
from jsa import (
    JSA,
    Batch,
    BeliefNetwork,
    Bernoulli,
    Enumeration,
    LatentSpace,
    LatentVariableModel,
    Layer,
    LayeredPosterior,
    Posterior,
    TensorRows,
    check_model,
    exact_likelihood,
    likelihood,
)
from jsa.errors import UsageError
from jsa.estimators import NVIL, Concrete, Estimator, GumbelSoftmax, ReweightedWakeSleep, StraightThrough
from jsa.relaxation import discrete
from jsa.testing.gradients import repeated


@pytest.fixture(params=KNOWN)
def known_example(request: pytest.FixtureRequest) -> Example:
    return with_known(request.param)


def known_of(example: Example) -> Tensor:
    assert example.batch.known is not None
    return example.batch.known


class ScoredAsIfUnknown(Wrapped):
    """What is known is put in its place in the draws, and its log q is counted all the same."""

    def posterior(self, batch: Batch) -> Posterior:
        posterior, free = self.model.posterior(batch), self.model.posterior(batch.with_nothing_known())
        vars(posterior).update(log_prob=free.log_prob, sample_with_log_prob=None)
        return posterior


def test_log_q_of_what_is_known_would_be_wrong_in_the_weights() -> None:
    # The bit known of the second layer is as likely as the first one says: it is no constant of a row.
    example = with_known("two-layers")
    (case,) = (case for case in CASES if case.name == "RWS")
    target = by_row(case.target, example.model, example.batch)
    wrong = by_row(case.target, ScoredAsIfUnknown(example.model), example.batch)
    differences = [
        float((wrong[f"model.{name}"] - target[name]).abs().max()) for name in target if "generative" in name
    ]
    assert max(differences) > 1e-2


def test_the_other_variables_have_their_probabilities_given_what_stands_before_them(known_example: Example) -> None:
    model, batch = known_example.model, known_example.batch
    for row in torch.arange(len(batch)).split(1):
        exact = enumerated(model, batch.take(row))
        assert torch.allclose(exact.inference.sum(), torch.ones((), dtype=torch.float64), atol=1e-12, rtol=0)
    # The known bit is the last one: the three bits before it are drawn as if it were not known.
    if model.latent.width == 4 and bool(known_of(known_example)[1, :3].isnan().all()):
        free, clamped = (Example(model, some).layers for some in (batch.with_nothing_known(), batch))
        h = clamped.sample((5,))[:, [1]].expand(-1, 3, -1)
        last = discrete(free.conditional(1, h[..., :2])).logits[:, 1, 1]
        expected = free.log_prob(h)[:, 1] - torch.nn.functional.logsigmoid(last)
        assert torch.allclose(clamped.log_prob(h)[:, 1], expected, atol=1e-12, rtol=0)


def test_draws_agree_with_what_is_known(known_example: Example) -> None:
    h = known_example.model.posterior(known_example.batch).sample((500,))
    known = known_of(known_example)
    assert bool(((h == known) | known.isnan()).all())
    assert known_example.model.latent.contains(h)


def test_chains_are_where_they_may_be(known_example: Example) -> None:
    model, batch = known_example.model, repeated(known_example.batch, 50)
    estimator = JSA(model.latent, len(batch), stage=1)
    # In stage I nothing is known, and in stage II it becomes so.
    estimator(model, batch.with_nothing_known())
    estimator.stage = 2
    before, _ = estimator.chains.read(batch.row_numbers, torch.float64)
    assert not bool(batch.agrees(before).all())
    estimate = estimator(model, batch)
    after, _ = estimator.chains.read(batch.row_numbers, torch.float64)
    assert bool(batch.agrees(after).all())
    assert bool(estimate.log_weights.isfinite().all())


@pytest.mark.parametrize("temperature", [0.5, 50.0])
@pytest.mark.parametrize("kind", [GumbelSoftmax, StraightThrough])
@pytest.mark.parametrize("name", ["two-layers", "categorical", "conditional"])
def test_what_is_known_is_not_relaxed(kind: type[GumbelSoftmax], name: str, temperature: float) -> None:
    example = EXAMPLES[name]()
    known = example.model.posterior(example.batch).sample((1,))[0]
    batch = replace(example.batch, known=known)
    (log_joint,) = example.model.log_joint(batch, known.unsqueeze(0))
    expected = gradients_of(example.model, -log_joint.mean(), "generative")
    found = gradients_of(example.model, kind(temperature=temperature)(example.model, batch).loss, "generative")
    assert max(float((one - other).abs().max()) for one, other in zip(found, expected, strict=True)) < 1e-12


@pytest.mark.parametrize("name", ["two-layers", "categorical"])
def test_no_control_variate_learns_from_what_is_known(name: str) -> None:
    example = EXAMPLES[name]()
    known = example.model.posterior(example.batch).sample((1,))[0]
    for method in ("rebar", "relax"):
        estimator = estimator_of(method, example.model, example.batch, temperature=50.0)
        estimate = estimator(example.model, replace(example.batch, known=known))
        assert float(estimate.diagnostics["logit_gradient_norm"]) < 1e-12


def test_concrete_refuses_what_is_known() -> None:
    # In the density of a relaxed prior the logit of a certain state has the slope 1, whatever its value.
    example = with_known("two-layers")
    with pytest.raises(UsageError, match="Concrete cannot learn from known latents: use vimco"):
        Concrete()(example.model, example.batch)


def test_sleep_is_without_knowledge() -> None:
    # What is dreamt is not the row of which something is known.
    example = with_known("two-layers")
    ReweightedWakeSleep(particles=2, sleep=0.5)(example.model, example.batch).loss.backward()


def test_likelihood_is_that_of_the_row_and_of_what_is_known(known_example: Example) -> None:
    batch = known_example.batch
    rows = TensorRows(batch.x, batch.context, batch.known)
    exact = exact_likelihood(known_example.model, rows)
    assert exact.nll == pytest.approx(-float(Enumeration()(known_example.model, batch).objective))
    found = likelihood(known_example.model, rows, samples=4_000)
    assert abs(found.nll - exact.nll) < 5 * found.monte_carlo_error + 1e-3
    assert exact_likelihood(known_example.model, TensorRows(batch.x, batch.context)).nll < exact.nll


class Forgetful(LatentVariableModel):
    """A posterior that does not look at what is known."""

    def __init__(self) -> None:
        super().__init__()
        self.latent = LatentSpace.of(Layer("bernoulli", 2))
        self.encoder = torch.nn.Linear(3, 2)
        self.decoder = torch.nn.Linear(2, 3)

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return Bernoulli(self.decoder(h)).log_prob(batch.x)

    def posterior(self, batch: Batch) -> Posterior:
        return LayeredPosterior(self.latent, Bernoulli(self.encoder(batch.x)))


class ForgetfulNetwork(BeliefNetwork):
    """Likewise, with layers that can be told apart."""

    def posterior(self, batch: Batch) -> LayeredPosterior:
        return super().posterior(batch.with_nothing_known())


def rows_with_a_known_bit() -> Batch:
    known = torch.full((40, 2), X)
    known[:, 0] = 1
    return Batch(torch.zeros(40, 3), torch.arange(100, 140), known=known)


@pytest.mark.parametrize("estimator", [ReweightedWakeSleep(), NVIL(LatentSpace.of(Layer("bernoulli", 2)), inputs=3)])
@pytest.mark.parametrize(
    "model", [Forgetful(), ForgetfulNetwork(Layer("bernoulli", 3), LatentSpace.of(Layer("bernoulli", 2)))]
)
def test_a_posterior_that_does_not_look_is_found(estimator: Estimator, model: LatentVariableModel) -> None:
    with pytest.raises(UsageError, match=r"contradicts the known values of row 1\d\d: .*known=batch.known"):
        estimator(model, rows_with_a_known_bit())


class Bits:
    """What a user may write: what is known is drawn as it is, and left out of log q."""

    def __init__(self, logits: Tensor, batch: Batch) -> None:
        self.logits, self.batch = logits, batch

    def sample(self, shape: tuple[int, ...]) -> Tensor:
        return self.batch.completed(Bernoulli(self.logits).sample(shape))

    def log_prob(self, h: Tensor) -> Tensor:
        terms = h * self.logits - torch.nn.functional.softplus(self.logits)
        assert self.batch.known is not None
        return terms.where(self.batch.known.isnan(), 0).sum(-1)


class Own(Forgetful):
    """A model with that posterior."""

    def posterior(self, batch: Batch) -> Posterior:
        return Bits(self.encoder(batch.x), batch)


def test_a_posterior_of_the_users_own_may_look() -> None:
    batch, model = rows_with_a_known_bit(), Own()
    check_model(model, batch)
    chains = JSA(model.latent, rows=200, stage=2)
    chains(model, batch).loss.backward()
    assert bool((chains.chains.read(batch.row_numbers)[0][:, 0] == 1).all())
    rows = TensorRows(batch.x, known=batch.known)
    assert abs(likelihood(model, rows, samples=2_000).nll - exact_likelihood(model, rows).nll) < 0.05
    wide = Batch(batch.x, batch.index, known=torch.ones(40, 1))
    with pytest.raises(UsageError, match="known states have the width of a state, 2"):
        chains(model, wide)


@pytest.mark.parametrize(
    ("name", "known", "sentence"),
    [
        ("one-layer", [0.5, X, X], "a known bit must be 0 or 1"),
        ("one-layer", [1.0, X], "width of a state, 3"),
        ("categorical", [1.0, 0, X, X, X, X], "one-hot, an unknown one NaN in all its classes"),
        ("categorical", [1.0, 1, 0, X, X, X], "one-hot, an unknown one NaN in all its classes"),
        ("categorical", [0.0, 0, 0, X, X, X], "one-hot, an unknown one NaN in all its classes"),
    ],
)
def test_what_is_no_state_is_refused(name: str, known: list[float], sentence: str) -> None:
    example = EXAMPLES[name]()
    batch = replace(example.batch, known=torch.tensor([known] * 3, dtype=torch.float64))
    with pytest.raises(UsageError, match=sentence):
        example.model.posterior(batch)


def test_a_gaussian_variable_cannot_be_known() -> None:
    space = LatentSpace.of(Layer("bernoulli", 1), Layer("gaussian", 1))
    space.refuse_wrong_known(torch.tensor([[1.0, X]]))
    with pytest.raises(UsageError, match="make it part of x"):
        space.refuse_wrong_known(torch.tensor([[X, 0.3]]))
