"""The likelihood by annealed importance sampling, for models whose q(h | x) is far from the posterior."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from jsa.batch import Batch
from jsa.errors import UsageError, check_at_least
from jsa.evaluation.likelihood import RowLikelihoods, by_row, device_of, evaluating
from jsa.evaluation.results import Likelihood
from jsa.evaluation.rows import Progress, Rows, as_rows, in_chunks, row_weights, states_in_chunk
from jsa.latent import LatentSpace
from jsa.model import LatentVariableModel
from jsa.model_calls import BatchPosterior, evaluate, log_joint, posterior_of, refuse_wrong_joint
from jsa.torch_contexts import seeded

STEEPNESS = 4.0
"""The slowness of the temperature changes at both ends relative to the middle."""


def annealed_likelihood(
    model: LatentVariableModel,
    rows: Rows | Tensor,
    samples: int = 16,
    steps: int = 1000,
    *,
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> Likelihood:
    r"""Estimate -log p(x) by annealed importance sampling, which uses q(h | x) as its starting point only.

    .. math:: -\log \frac1S \sum_{s=1}^S \prod_{t=1}^T
        \left( \frac{p(x, h_{s,t-1})}{q(h_{s,t-1} | x)} \right)^{\beta_t - \beta_{t-1}}

    where h_0 is drawn from q, and h_t from h_{t-1} by a Metropolis move that leaves q^{1 - \beta_t} p^{\beta_t}
    invariant: more often a new draw of q while beta is small, and more often the change of one variable while beta is
    large. The mean weight is unbiased for p(x) with any number of steps. The NLL is therefore biased upward, as in
    ``likelihood``, which is the case of one step; but many steps reduce the bias where more samples do not.

    Args:
        model: The model, with discrete latent variables.
        rows: The data: a tensor, or an object that returns rows by number.
        samples: Annealed chains per row.
        steps: Temperatures, each of which costs one evaluation per chain: use many times the number of latent
            variables.
        seed: The seed of the draws.
        device: The device of the evaluation; by default that of the model's parameters.
        progress: Called with the number of rows done.

    Example:
        >>> from jsa import BeliefNetwork, LatentSpace, Layer, exact_likelihood
        >>> model = BeliefNetwork(Layer("bernoulli", 6), LatentSpace.of(Layer("bernoulli", 4)))
        >>> found = annealed_likelihood(model, torch.eye(6), samples=20, steps=50)
        >>> abs(found.nll - exact_likelihood(model, torch.eye(6)).nll) < 0.5
        True

    References:
        Neal, Annealed importance sampling, Statistics and Computing 11 (2001); Wu, Burda, Salakhutdinov and Grosse, On
        the quantitative analysis of decoder-based generative models, ICLR 2017.
    """
    return annealed_row_likelihoods(model, rows, samples, steps, seed=seed, device=device, progress=progress).mean


def annealed_row_likelihoods(
    model: LatentVariableModel,
    rows: Rows | Tensor,
    samples: int = 16,
    steps: int = 1000,
    *,
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> RowLikelihoods:
    """Estimate -log p(x) of each row. The arguments are those of ``annealed_likelihood``, which returns the mean."""
    check_at_least(1, samples=samples, steps=steps)
    if any(layer.kind == "gaussian" for layer in model.latent.layers):
        raise UsageError("annealing needs discrete latent variables, and some are Gaussian: use likelihood")
    rows = as_rows(rows)
    weights = row_weights(rows)
    device = device or device_of(model)
    betas = inverse_temperatures(steps)
    with evaluating(model), seeded(seed, device):
        chunks = in_chunks(rows, max(1, states_in_chunk(rows) // samples), device, progress)
        return by_row((annealed_weights(model, batch, samples, betas) for batch in chunks), samples, weights, steps)


def inverse_temperatures(steps: int) -> list[float]:
    """Return inverse temperatures from 0 to 1 in this many steps, which are small at both ends.

    >>> [round(beta, 3) for beta in inverse_temperatures(4)]
    [0.0, 0.105, 0.5, 0.895, 1.0]
    """
    curve = torch.linspace(-STEEPNESS, STEEPNESS, steps + 1, dtype=torch.float64).sigmoid()
    curve = (curve - curve[0]) / (curve[-1] - curve[0])
    return [0.0, *curve[1:-1].tolist(), 1.0]


def annealed_weights(
    model: LatentVariableModel, batch: Batch, samples: int, betas: list[float]
) -> Float64[Tensor, "samples batch"]:
    """Return the log-weights of this many annealed chains for each row."""
    posterior = posterior_of(model, batch)
    first = evaluate(model, batch, posterior, *posterior.sample_with_log_prob((samples,)))
    chains = Chains(first.h, first.log_joint, first.log_inference)
    total = torch.zeros_like(first.log_weights, dtype=torch.float64)
    for before, beta in pairwise(betas):
        total += (beta - before) * chains.log_weights.double()
        if beta < 1:
            chains = moved(model, batch, posterior, chains, beta)
    return total


@dataclass(frozen=True)
class Chains:
    """The current states of annealed chains.

    Attributes:
        h: The states.
        log_joint: log p(x, h).
        log_inference: log q(h | x).
    """

    h: Float[Tensor, "samples batch width"]
    log_joint: Float[Tensor, "samples batch"]
    log_inference: Float[Tensor, "samples batch"]

    @property
    def log_weights(self) -> Float[Tensor, "samples batch"]:
        """log p(x, h) - log q(h | x)."""
        return self.log_joint - self.log_inference

    def log_target(self, beta: float) -> Float[Tensor, "samples batch"]:
        """Return the logarithm of q^(1 - beta) p^beta."""
        return beta * self.log_joint + (1 - beta) * self.log_inference


def moved(model: LatentVariableModel, batch: Batch, posterior: BatchPosterior, chains: Chains, beta: float) -> Chains:
    """Return the chains after one Metropolis move that leaves q^(1 - beta) p^beta invariant."""
    # The kind of move depends on the temperature and not on the states, so either kind is valid.
    if float(torch.rand(())) < 1 - beta:
        h, log_inference = posterior.sample_with_log_prob((len(chains.h),))
        proposed = Chains(h, log_joint(model, batch, h), log_inference)
        # For an independent proposal, the acceptance uses the ratio of the target to q.
        here, there = beta * chains.log_weights, beta * proposed.log_weights
    else:
        variable = torch.randint(model.latent.variables, chains.log_joint.shape, device=chains.h.device)
        h = batch.completed(with_one_changed(model.latent, chains.h, variable, torch.rand_like(chains.log_joint)))
        proposed = Chains(h, log_joint(model, batch, h), posterior.log_prob(h))
        here, there = chains.log_target(beta), proposed.log_target(beta)
    refuse_wrong_joint(batch, proposed.log_joint)
    # Written as a sum, two states of probability zero compare as a rejection and not as NaN.
    accepted = torch.rand_like(here).log() + here < there
    return Chains(
        torch.where(accepted.unsqueeze(-1), proposed.h, chains.h),
        torch.where(accepted, proposed.log_joint, chains.log_joint),
        torch.where(accepted, proposed.log_inference, chains.log_inference),
    )


def with_one_changed(
    latent: LatentSpace,
    h: Float[Tensor, "*batch width"],
    variable: Int64[Tensor, "*batch"],
    uniforms: Float[Tensor, "*batch"],
) -> Float[Tensor, "*batch width"]:
    """Return states with one variable changed: to the other bit, or to any other class.

    The reverse change has the same probability, so the proposal needs no correction.

    Args:
        latent: The latent space.
        h: The states.
        variable: The number of the variable to change in each state.
        uniforms: Numbers on [0, 1) that choose among its other classes.

    Example:
        >>> from jsa import Layer
        >>> dice = LatentSpace.of(Layer("categorical", 1, classes=3))
        >>> with_one_changed(dice, torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([0]), torch.tensor([0.9]))
        tensor([[1., 0., 0.]])
    """
    changed = h.clone()
    for layer, where, numbers in zip(latent.layers, latent.slices, latent.noise_slices, strict=True):
        chosen = variable.unsqueeze(-1) == torch.arange(numbers.start, numbers.stop, device=h.device)
        part = h[..., where]
        if layer.kind == "bernoulli":
            changed[..., where] = torch.where(chosen, 1 - part, part)
            continue
        classes = part.unflatten(-1, (layer.variables, layer.classes))
        # Rounding may raise the product to the number of the other classes.
        further = 1 + (uniforms * (layer.classes - 1)).long().clamp_max(layer.classes - 2)
        others = (classes.argmax(-1) + further.unsqueeze(-1)) % layer.classes
        other = F.one_hot(others, layer.classes).to(h.dtype)
        changed[..., where] = torch.where(chosen.unsqueeze(-1), other, classes).flatten(-2)
    return changed
