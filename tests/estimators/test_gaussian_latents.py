"""Continuous latents: a linear Gaussian model, whose posterior and likelihood are known in closed form."""

from __future__ import annotations

import pytest
import torch
from scipy import stats
from torch import Tensor

from helpers.significance import assert_mean, threshold
from helpers.small_models import RowsInMemory, first_linear
from jsa import JSA, Batch, BeliefNetwork, LatentSpace, Layer, Stage, likelihood
from jsa.kernels import Block, Independence, Kernel, MetropolisHastings, Repeat
from jsa.testing.gradients import repeated

LOADINGS = torch.tensor([[1.0, 0.5], [-0.7, 0.8], [0.3, -0.6]], dtype=torch.float64)
OFFSET = torch.tensor([0.2, -0.1, 0.4], dtype=torch.float64)
NOISE = torch.tensor([0.8, 0.6, 1.0], dtype=torch.float64)
X = torch.tensor([[1.0, -0.5, 0.3], [-0.8, 0.9, -1.2]], dtype=torch.float64)


def posterior_covariance() -> Tensor:
    """(I + W' D^-1 W)^-1."""
    return torch.linalg.inv(torch.eye(2, dtype=torch.float64) + (LOADINGS.T / NOISE.square()) @ LOADINGS)


def posterior_mean(x: Tensor) -> Tensor:
    return ((x - OFFSET) / NOISE.square()) @ LOADINGS @ posterior_covariance()


def marginal() -> stats.rv_continuous:
    """x is normal with covariance W W' + D."""
    covariance = LOADINGS @ LOADINGS.T + torch.diag(NOISE.square())
    return stats.multivariate_normal(OFFSET.numpy(), covariance.numpy())


@pytest.fixture
def model() -> BeliefNetwork:
    """h ~ N(0, I), x | h ~ N(W h + b, D), and a factorized q that is off in mean and wider than the posterior."""
    network = BeliefNetwork(Layer("gaussian", 3), LatentSpace.of(Layer("gaussian", 2))).double()
    decoder, encoder = first_linear(network.generative), first_linear(network.inference)
    gain = posterior_covariance() @ (LOADINGS.T / NOISE.square())
    spread = 1.4 * posterior_covariance().diagonal().sqrt()
    with torch.no_grad():
        # The lower half of the outputs are the log scales: constants.
        decoder.weight.copy_(torch.cat([LOADINGS, torch.zeros(3, 2)]))
        decoder.bias.copy_(torch.cat([OFFSET, NOISE.log()]))
        encoder.weight.copy_(torch.cat([gain, torch.zeros(2, 3)]))
        encoder.bias.copy_(torch.cat([0.2 - gain @ OFFSET, spread.log()]))
    return network


KERNELS = [Repeat(MetropolisHastings(Independence()), 5), Repeat(MetropolisHastings(Block(0.5)), 10)]


@torch.no_grad()
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_chains_come_to_the_exact_posterior(model: BeliefNetwork, kernel: Kernel) -> None:
    chains = 20_000
    batch = repeated(Batch(X, torch.arange(len(X))), chains)
    estimator = JSA(model.latent, len(batch), kernel=kernel, stage=Stage.PERSISTENT)
    accepted = [float(estimator(model, batch).diagnostics["acceptance"]) for _ in range(10)]
    assert 0.2 < accepted[-1] < 0.9  # the proposals are neither perfect nor hopeless
    states, _ = estimator.chains.read(batch.row_numbers, torch.float64)
    centered = states.unflatten(0, (chains, -1)) - posterior_mean(X)
    assert_mean(centered, 0.0)
    products = centered.unsqueeze(-1) * centered.unsqueeze(-2)
    assert_mean(products, posterior_covariance())
    # The correlation, which no single factorized draw has, must be there.
    assert posterior_covariance()[0, 1].abs() > 20 * products[:, 0, 0, 1].std() / chains**0.5


def test_the_moments_of_the_proposals_are_refused(model: BeliefNetwork) -> None:
    """The power of the test above: draws from q fail it."""
    centered = model.posterior(Batch(X, torch.arange(len(X)))).sample((20_000,)) - posterior_mean(X)
    with pytest.raises(AssertionError, match="standard errors off"):
        assert_mean(centered, 0.0)


def test_importance_samples_give_the_exact_likelihood(model: BeliefNetwork) -> None:
    x = torch.from_numpy(marginal().rvs(200, random_state=1))
    found = likelihood(model, RowsInMemory(Batch(x, torch.arange(len(x)))), samples=2_000)
    exact = -float(marginal().logpdf(x.numpy()).mean())
    assert found.upward_bias < 1e-3
    assert abs(found.nll - found.upward_bias - exact) < threshold(1) * found.monte_carlo_error
    assert found.monte_carlo_error < 0.005
