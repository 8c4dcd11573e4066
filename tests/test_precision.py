"""Half precision is enough for networks, and never used for draws, weights and sums of log-probabilities."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from helpers.small_models import RowsInMemory
from jsa import (
    JSA,
    Batch,
    Bernoulli,
    Categorical,
    LatentSpace,
    LatentVariableModel,
    Layer,
    LayeredPosterior,
    exact_likelihood,
    likelihood,
    multi_sample_bounds,
)
from jsa.batch import HALVES
from jsa.distributions import factorized
from jsa.errors import UsageError

PIXELS = 784


class Wide(LatentVariableModel):
    """Bits above many pixels, as a user may write them."""

    def __init__(self) -> None:
        super().__init__()
        self.latent = LatentSpace.of(Layer("bernoulli", 8))
        self.encoder, self.decoder = nn.Linear(PIXELS, 8), nn.Linear(8, PIXELS)

    def posterior(self, batch: Batch) -> LayeredPosterior:
        return LayeredPosterior(self.latent, Bernoulli(self.encoder(batch.x)))

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return Bernoulli(h.new_zeros(8)).log_prob(h) + Bernoulli(self.decoder(h)).log_prob(batch.x)


class Words(LatentVariableModel):
    """Whole numbers are observed, and embedded."""

    def __init__(self) -> None:
        super().__init__()
        self.latent = LatentSpace.of(Layer("bernoulli", 2), Layer("bernoulli", 2))
        self.words, self.deeper, self.logits = nn.Embedding(7, 2), nn.Linear(2, 2), nn.Linear(4, 7)

    def posterior(self, batch: Batch) -> LayeredPosterior:
        first = Bernoulli(self.words(batch.x[:, 0]))
        return LayeredPosterior(self.latent, first, [lambda h: Bernoulli(self.deeper(h))])

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        word = self.logits(h).log_softmax(-1).gather(-1, batch.x[:, 0].expand(h.shape[:-1]).unsqueeze(-1))
        return word.squeeze(-1) + Bernoulli(torch.zeros(4)).log_prob(h)


@pytest.mark.parametrize("dtype", HALVES)
def test_rare_events_are_as_rare_as_they_should_be(dtype: torch.dtype) -> None:
    bits = Bernoulli(torch.full((1,), -9.2, dtype=dtype))
    frequency = float(bits.sample((1_000_000,)).mean())
    assert abs(frequency - 1.01e-4) < 5e-5
    # The uniforms of the type itself would make it: (torch.rand(n, dtype=dtype) < p) is 20 or 4 times as frequent.
    naive = float((torch.rand(1_000_000, dtype=dtype) < bits.mean.to(dtype)).float().mean())
    assert naive > 2.5e-4
    classes = Categorical(torch.tensor([9.0, 0.0, 0.0], dtype=dtype), classes=3)
    assert (classes.sample((100_000,)).sum(0) > 0).all()


def test_autocast_loses_nothing_that_matters() -> None:
    model = Wide()
    x = (torch.rand(20, PIXELS) < 0.5).float()
    batch = Batch(x, torch.arange(20))
    h = model.posterior(batch).sample((30,))
    exact = model.double().log_joint(Batch(x.double(), batch.index), h.double())
    model.float()
    with torch.autocast("cpu", torch.bfloat16):
        found = model.log_joint(batch, h)
        estimate = JSA(model.latent, 20, particles=3)(model, batch)
        # What the distributions do in single precision, done in the precision of the logits.
        logits = model.decoder(h)
        naive = (batch.x * logits - nn.functional.softplus(logits)).to(torch.bfloat16).sum(-1)
    prior = 8 * 0.6931471805599453
    assert logits.dtype == torch.bfloat16
    assert found.dtype == torch.float32
    assert (found - exact).std() < 0.1
    assert (naive.double() - prior - exact).std() > 0.5
    assert estimate.log_weights.dtype == torch.float32
    estimate.loss.backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


def test_a_joint_in_half_precision_is_refused() -> None:
    model = Wide()
    batch = Batch(torch.ones(2, PIXELS), torch.arange(2))
    vars(model)["log_joint"] = lambda batch, h: h.sum(-1).bfloat16()
    with pytest.raises(UsageError, match=r"log_joint returned torch\.bfloat16.*sum in float32"):
        JSA(model.latent, 2)(model, batch)


def test_whole_numbers_may_be_observed() -> None:
    model = Words()
    rows = RowsInMemory(Batch(torch.arange(7).unsqueeze(-1), torch.arange(7)))
    exact, found = exact_likelihood(model, rows), likelihood(model, rows, samples=5_000)
    assert found.effective_sample_size < 4_999
    assert abs(found.nll - exact.nll) < 5 * found.monte_carlo_error
    bounds = multi_sample_bounds(model, rows, (1, 50), samples=5_000)
    assert bounds[1] < bounds[50]


@pytest.mark.parametrize(("layer", "shift"), [(Layer("bernoulli", 3), 0.0), (Layer("gaussian", 3), 0.25)])
def test_chains_of_whole_numbers_go_on_from_their_states(layer: Layer, shift: float) -> None:
    estimator = JSA(LatentSpace.of(layer), rows=2)
    h = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]) + shift
    batch = Batch(torch.tensor([[5], [6]]), torch.arange(2))
    estimator.chains.write(batch.row_numbers, h, moved=torch.ones(2, dtype=torch.bool))
    posterior = LayeredPosterior(LatentSpace.of(layer), factorized(layer, torch.zeros(2, layer.parameters)))
    assert torch.equal(estimator.chains.initial_states(batch, posterior), h)
