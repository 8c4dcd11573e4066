"""The paper's claim: with chains that persist, JSA reaches the maximum of the likelihood even where q is hopeless.

Four bits, 400 rows, two particles. The maximum is found by exact gradients from the same start. A q that is blind to x
cannot come near the posterior, so that chains which start anew from it (stage I) are stopped far below the maximum;
chains that persist are not. Run with ``-s`` to see the figures.
"""

from __future__ import annotations

import copy
import sys

import jaxtyping
import pytest
import torch

from helpers.sizes import sizes
from helpers.small_models import enumerated, first_linear
from jsa import JSA, Batch, BeliefNetwork, Bernoulli, LatentSpace, LatentVariableModel, Layer, LayeredPosterior, Stage

ROWS = 400
BITS = 4
COPIES = 3
PARTICLES = 2
STEPS = 800
STEPS_WITH_FROZEN_PROPOSALS = 1_200


class BlindNetwork(BeliefNetwork):
    """A belief network whose inference model has free logits, the same for every x."""

    def __init__(self, observed: Layer, latent: LatentSpace) -> None:
        super().__init__(observed, latent)
        logits = torch.nn.Embedding.from_pretrained(torch.zeros(1, latent.width), freeze=False)
        self.inference = torch.nn.ModuleList([logits])

    def posterior(self, batch: Batch) -> LayeredPosterior:
        return LayeredPosterior(self.latent, Bernoulli(self.inference[0](torch.zeros_like(batch.row_numbers))))


def clustered_rows(seed: int) -> Batch:
    """Each latent bit is seen three times, each time wrong with probability 0.12: sixteen clear clusters."""
    generator = torch.Generator().manual_seed(seed)
    h = torch.randint(2, (ROWS, BITS), generator=generator).double()
    chances = ((4 * h - 2).repeat(1, COPIES)).sigmoid()
    return Batch(torch.bernoulli(chances, generator=generator), torch.arange(ROWS))


def initial_model(kind: str, seed: int) -> BeliefNetwork:
    """A start that all methods share.

    It leans a little to the truth: from elsewhere there are several maxima, and which of them is reached would be
    chance, for the exact gradient as well.
    """
    make = {"blind": BlindNetwork, "amortized": BeliefNetwork}[kind]
    model = make(Layer("bernoulli", BITS * COPIES), LatentSpace.of(Layer("bernoulli", BITS))).double()
    generator = torch.Generator().manual_seed(seed)
    decoder = first_linear(model.generative)
    with torch.no_grad():
        noise = torch.randn(decoder.weight.shape, generator=generator, dtype=torch.float64)
        decoder.weight.copy_(torch.eye(BITS).repeat(COPIES, 1) + 0.3 * noise)
        decoder.bias.fill_(-0.5)
    return model


def log_likelihood(model: LatentVariableModel, batch: Batch) -> torch.Tensor:
    """The exact mean over rows."""
    return enumerated(model, batch).log_likelihood.mean()


def maximum_likelihood(initial: BeliefNetwork, batch: Batch) -> float:
    """By exact gradients: steps small enough to stay in the basin of the start, then to the top of it."""
    model = copy.deepcopy(initial)
    parameters = list(model.generative.parameters())
    for _ in range(200):
        ascent = torch.autograd.grad(log_likelihood(model, batch), parameters)
        with torch.no_grad():
            for parameter, direction in zip(parameters, ascent, strict=True):
                parameter.add_(direction, alpha=2)
    optimizer = torch.optim.LBFGS(parameters, max_iter=300, tolerance_grad=1e-8, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = -log_likelihood(model, batch)
        value.backward()
        return value

    optimizer.step(loss)
    return log_likelihood(model, batch).item()


def joint_stochastic_approximation(initial: BeliefNetwork, batch: Batch, stage: Stage, frozen: bool = False) -> float:
    """Plain stochastic approximation with the steps of Robbins and Monro: their sum diverges, that of squares not."""
    model = copy.deepcopy(initial)
    model.inference.requires_grad_(not frozen)
    estimator = JSA(model.latent, ROWS, PARTICLES, stage)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for step in range(STEPS_WITH_FROZEN_PROPOSALS if frozen else STEPS):
        size = 40 / (step + 100) ** 0.7
        descent = torch.autograd.grad(estimator(model, batch).loss, parameters)
        with torch.no_grad():
            for parameter, direction in zip(parameters, descent, strict=True):
                parameter.sub_(direction, alpha=size)
    return log_likelihood(model, batch).item()


def figures(kind: str, seed: int) -> dict[str, float]:
    """The mean log-likelihood that each method reaches."""
    batch, initial = clustered_rows(seed), initial_model(kind, seed)
    return {
        "start": log_likelihood(initial, batch).item(),
        "exact maximum": maximum_likelihood(initial, batch),
        "stage II": joint_stochastic_approximation(initial, batch, Stage.PERSISTENT),
        "stage I": joint_stochastic_approximation(initial, batch, Stage.FRESH),
        "stage II, phi frozen": joint_stochastic_approximation(initial, batch, Stage.PERSISTENT, frozen=True),
    }


@pytest.fixture(scope="module", params=sizes([1], range(2, 8)))
def reached(request: pytest.FixtureRequest) -> dict[str, dict[str, float]]:
    torch.manual_seed(1)
    # Thousands of steps of what other tests check: here the shape checks would cost more than the steps.
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        table = {f"{kind}-{seed}": figures(kind, seed) for kind in ("blind", "amortized") for seed in request.param}
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
    for kind, row in table.items():
        sys.stdout.write(f"\nq {kind}: {', '.join(f'{name} {value:.4f}' for name, value in row.items())}\n")
    return table


def rows_of(table: dict[str, dict[str, float]], kind: str) -> list[dict[str, float]]:
    return [row for name, row in table.items() if name.startswith(kind)]


# Frozen, the proposals never learn: classic stochastic-approximation EM with a Markov chain gets there too, slower.
@pytest.mark.parametrize("method", ["stage II", "stage II, phi frozen"])
@pytest.mark.parametrize("kind", ["blind", "amortized"])
def test_persistent_chains_reach_the_maximum(reached: dict[str, dict[str, float]], kind: str, method: str) -> None:
    for row in rows_of(reached, kind):
        assert abs(row["exact maximum"] - row[method]) < 0.02


def test_fresh_chains_miss_it_where_q_is_blind(reached: dict[str, dict[str, float]]) -> None:
    for row in rows_of(reached, "blind"):
        assert row["exact maximum"] - row["stage I"] > 0.2


def test_there_was_something_to_learn(reached: dict[str, dict[str, float]]) -> None:
    for row in reached.values():
        assert row["exact maximum"] - row["start"] > 1
