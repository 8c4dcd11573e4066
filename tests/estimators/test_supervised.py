"""How q learns from what is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from helpers.known_rows import KNOWN, X, with_known
from helpers.small_models import (
    EXAMPLES,
    by_row,
    enumerated,
    exact_gradients,
    gradients,
    gradients_of,
    largest_difference,
    objective,
    torch_posterior,
)
from jsa import JSA, Batch, Bernoulli, LatentSpace, LatentVariableModel, Layer, supervised_loss
from jsa.errors import UsageError
from jsa.posteriors import LayeredPosterior, TorchPosterior
from jsa.testing.gradients import repeated


@pytest.mark.parametrize("name", KNOWN)
def test_it_completes_the_divergence_to_the_whole_q(name: str) -> None:
    example = with_known(name)
    model, batch = example.model, example.batch

    def whole(model: LatentVariableModel, row: Batch) -> dict[str, Tensor]:
        """The objective with all of log q, at the states that agree with what is known."""
        exact = enumerated(model, row)
        log_q = model.posterior(row.with_nothing_known()).log_prob(exact.states.unsqueeze(1))
        return gradients(model, -(exact.log_likelihood + (exact.posterior * log_q).sum(0)).mean())

    def completed(model: LatentVariableModel, row: Batch) -> dict[str, Tensor]:
        exact = enumerated(model, row)
        terms = [supervised_loss(model, row, state.view(1, -1)) for state in exact.states]
        return gradients(model, -objective(model, row) + (exact.posterior[:, 0] * torch.stack(terms)).sum())

    expected, found = by_row(whole, model, batch), by_row(completed, model, batch)
    alone = by_row(exact_gradients, model, batch)
    assert largest_difference(found, expected) < 1e-12
    assert largest_difference(alone, expected) > 1e-2


def test_nothing_known_adds_nothing() -> None:
    example = EXAMPLES["two-layers"]()
    assert float(supervised_loss(example.model, example.batch)) == 0
    unknown = replace(example.batch, known=torch.full((3, 4), X, dtype=torch.float64))
    loss = supervised_loss(example.model, unknown)
    assert float(loss.detach()) < 1e-15
    assert all(float(gradient.abs().max()) == 0 for gradient in gradients_of(example.model, loss, "inference"))


class WithDropout(LatentVariableModel):
    """A q that is another one at each pass."""

    def __init__(self) -> None:
        super().__init__()
        self.latent = LatentSpace.of(Layer("bernoulli", 2), Layer("bernoulli", 1))
        self.encoder = nn.Sequential(nn.Linear(3, 20), nn.Dropout(0.5), nn.Linear(20, 2))
        self.deeper = nn.Sequential(nn.Linear(2, 20), nn.Dropout(0.5), nn.Linear(20, 1))

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return h.sum(-1)

    def posterior(self, batch: Batch) -> LayeredPosterior:
        deeper = [lambda h: Bernoulli(self.deeper(h))]
        return LayeredPosterior(self.latent, Bernoulli(self.encoder(batch.x)), deeper, known=batch.known)


def test_a_q_that_is_random_is_asked_once() -> None:
    model = WithDropout()
    loss = supervised_loss(model, Batch(torch.rand(5, 3), torch.arange(5), known=torch.full((5, 3), X)))
    assert float(loss.detach()) < 1e-15
    assert all(float(gradient.abs().max()) == 0 for gradient in gradients_of(model, loss, "encoder"))


def test_where_the_chains_stand() -> None:
    example = with_known("two-layers")
    batch = repeated(example.batch, 20)
    estimator = JSA(example.model.latent, rows=100)
    before, _ = estimator.chains.read(batch.row_numbers, torch.float64)
    # Chains that have not moved stand nowhere, and q would be taught the contrary of what is known.
    with pytest.raises(UsageError, match="contradicts the known values of row 1"):
        supervised_loss(example.model, batch, before)
    estimator(example.model, batch)
    after, _ = estimator.chains.read(batch.row_numbers, torch.float64)
    assert 0 < float(supervised_loss(example.model, batch, after).detach()) < 40


def test_a_posterior_that_cannot_be_taught_says_so() -> None:
    example = torch_posterior()
    assert isinstance(example.model.posterior(example.batch), TorchPosterior)
    known = torch.full((3, 3), X, dtype=torch.float64)
    with pytest.raises(UsageError, match=r"TorchPosterior cannot score .* define known_log_prob\(h\)"):
        supervised_loss(example.model, replace(example.batch, known=known))


def test_many_known_bits_cost_no_digits() -> None:
    torch.manual_seed(0)
    logits = torch.randn(20, 2_020)
    known = torch.full_like(logits, X)
    known[:, :2_000] = 1
    space = LatentSpace.of(Layer("bernoulli", 2_020))
    posterior = LayeredPosterior(space, Bernoulli(logits), known=known)
    h = posterior.sample((50,))
    exact = Bernoulli(logits[:, 2_000:].double()).log_prob(h[..., 2_000:].double())
    assert float((posterior.log_prob(h) - exact).abs().max()) < 1e-5
    rows = torch.tensor([3, 3, 1])
    narrowed = posterior.take(rows)
    assert narrowed is not None
    assert torch.allclose(narrowed.log_prob(h[:, rows]), posterior.log_prob(h)[:, rows], atol=1e-6)
