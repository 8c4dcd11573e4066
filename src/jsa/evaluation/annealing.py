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
from jsa.evaluation.rows import Progress, Rows, as_rows, in_chunks, states_in_chunk
from jsa.latent import LatentSpace
from jsa.model import LatentVariableModel
from jsa.model_calls import BatchPosterior, evaluate, log_joint, posterior_of, refuse_wrong_joint
from jsa.torch_contexts import seeded

STEEPNESS = 4.0
"""How much slower temperatures change at both ends than in the middle."""


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
    r"""Estimates -log p(x) by annealed importance sampling, which needs a q(h | x) only to begin with.

    .. math:: -\log \frac1S \sum_{s=1}^S \prod_{t=1}^T
        \left( \frac{p(x, h_{s,t-1})}{q(h_{s,t-1} | x)} \right)^{\beta_t - \beta_{t-1}}

    where h_0 is drawn from q, and h_t from h_{t-1} by a Metropolis move that leaves q^{1 - \beta_t} p^{\beta_t}
    invariant: to a new draw of q, more often while beta is small, or by one variable that changes, more often while it
    is large. The mean weight is unbiased for p(x) with any number of steps, so that the NLL is biased upward as by
    ``likelihood``, which is this with one step; but many steps bring it down where no number of samples does.

    Args:
        model: The model, whose latent variables are discrete.
        rows: The data: a tensor, or anything that gives rows by their numbers.
        samples: Annealed chains a row.
        steps: Temperatures, each for one evaluation of every chain: many times the number of latent variables.
        seed: The seed of the draws.
        device: Where to evaluate; the device of the model's parameters where not given.
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
    """Estimates -log p(x) of each row, as ``annealed_likelihood`` does for their mean; the arguments are the same."""
    check_at_least(1, samples=samples, steps=steps)
    if any(layer.kind == "gaussian" for layer in model.latent.layers):
        raise UsageError("annealing changes one discrete variable at a time, and some are Gaussian: use likelihood")
    rows = as_rows(rows)
    device = device or device_of(model)
    betas = inverse_temperatures(steps)
    with evaluating(model), seeded(seed, device):
        chunks = in_chunks(rows, max(1, states_in_chunk(rows) // samples), device, progress)
        return by_row((annealed_weights(model, batch, samples, betas) for batch in chunks), samples, steps)


def inverse_temperatures(steps: int) -> list[float]:
    """From 0 to 1 in so many steps, which are small at both ends.

    >>> [round(beta, 3) for beta in inverse_temperatures(4)]
    [0.0, 0.105, 0.5, 0.895, 1.0]
    """
    curve = torch.linspace(-STEEPNESS, STEEPNESS, steps + 1, dtype=torch.float64).sigmoid()
    curve = (curve - curve[0]) / (curve[-1] - curve[0])
    return [0.0, *curve[1:-1].tolist(), 1.0]


def annealed_weights(
    model: LatentVariableModel, batch: Batch, samples: int, betas: list[float]
) -> Float64[Tensor, "samples batch"]:
    """The log-weights of so many annealed chains for each row."""
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
    """Where annealed chains stand.

    Attributes:
        h: Their states.
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
        """The logarithm of q^(1 - beta) p^beta."""
        return beta * self.log_joint + (1 - beta) * self.log_inference


def moved(model: LatentVariableModel, batch: Batch, posterior: BatchPosterior, chains: Chains, beta: float) -> Chains:
    """The chains after one Metropolis move that leaves q^(1 - beta) p^beta invariant."""
    # Which kind of move it is depends on the temperature and not on the states, so that either may be made.
    if float(torch.rand(())) < 1 - beta:
        h, log_inference = posterior.sample_with_log_prob((len(chains.h),))
        proposed = Chains(h, log_joint(model, batch, h), log_inference)
        # For an independent proposal the target counts by its ratio to q.
        here, there = beta * chains.log_weights, beta * proposed.log_weights
    else:
        variable = torch.randint(model.latent.variables, chains.log_joint.shape, device=chains.h.device)
        h = batch.completed(with_one_changed(model.latent, chains.h, variable, torch.rand_like(chains.log_joint)))
        proposed = Chains(h, log_joint(model, batch, h), posterior.log_prob(h))
        here, there = chains.log_target(beta), proposed.log_target(beta)
    refuse_wrong_joint(batch, proposed.log_joint)
    # Written as a sum, two states of probability zero compare as a refusal and not as NaN.
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
    """States of which one variable has another value: the other bit, or any other class.

    As probable the other way round, so that the proposal needs no correction.

    Args:
        latent: What a state is made of.
        h: The states.
        variable: The number of the variable of each that changes.
        uniforms: On [0, 1): which of its other classes it takes.

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
        # Rounding may bring the product up to the number of the other classes.
        further = 1 + (uniforms * (layer.classes - 1)).long().clamp_max(layer.classes - 2)
        others = (classes.argmax(-1) + further.unsqueeze(-1)) % layer.classes
        other = F.one_hot(others, layer.classes).to(h.dtype)
        changed[..., where] = torch.where(chosen.unsqueeze(-1), other, classes).flatten(-2)
    return changed
