"""A method's gradient against the exact one, by draws, where the latent states can be enumerated."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import torch
from jaxtyping import Float
from torch import Tensor

from jsa.batch import Batch
from jsa.errors import BrokenPromiseError, UsageError
from jsa.estimators import Enumeration, Estimator, Stage
from jsa.model import LatentVariableModel
from jsa.model_calls import log_joint_of_all, posterior_of, state_dtype
from jsa.torch_contexts import seeded

Gradients = dict[str, Tensor]
Objective = Callable[[LatentVariableModel, Batch], Tensor]

FALSE_ALARMS = 1e-6
"""The probability that a right method is refused, all parameters together (Bonferroni)."""
SHARPNESS = 0.05
"""The largest standard error of a comparison, as a share of the norm of the exact gradient."""


def elbo(model: LatentVariableModel, batch: Batch) -> Float[Tensor, ""]:
    """Return the exact batch mean of E_q[log p(x, h) - log q(h | x)], with gradient."""
    _, joint, inference = _enumerated(model, batch)
    possible = inference > -torch.inf
    # Only states that q draws count, and minus infinity times zero would not be zero.
    terms = joint.where(possible, 0) - inference.where(possible, 0)
    return batch.mean((inference.exp().where(possible, 0) * terms).sum(0))


def inclusive(model: LatentVariableModel, batch: Batch) -> Float[Tensor, ""]:
    """Return the exact batch mean of log p(x) + E_p[log q(h | x)], p held fixed in the second: what JSA ascends."""
    return -Enumeration()(model, batch).loss


@dataclass(frozen=True)
class GradientComparison:
    """How the mean of drawn gradients compares with the exact gradient.

    Attributes:
        score: The largest deviation of a component, in standard errors.
        limit: The score that a right method exceeds with probability 1e-6.
        error: The standard error of the mean, as a share of the exact gradient's norm.
    """

    score: float
    limit: float
    error: float

    @property
    def agrees(self) -> bool:
        """Whether the draws may have the exact gradient as their mean."""
        return self.score < self.limit


def check_gradient(
    estimator: Estimator,
    model: LatentVariableModel,
    batch: Batch,
    objective: Objective,
    *,
    copies: int = 1000,
    repetitions: int = 40,
) -> GradientComparison:
    """Refuse a method whose mean gradient is not that of the objective, and return how close they are.

    So many gradients of so many copies of the rows are drawn. Each component of their mean is compared with the exact
    one by Student's t-test; a right method is refused once in a million calls. Chains are drawn from the exact
    posterior before each gradient, and the method is in stage II.

    Args:
        estimator: The method; a copy of it is used. Chains are in memory, for ``copies`` times the rows of the batch.
        model: A model with few latent states, which are enumerated.
        batch: A few different rows.
        objective: The exact objective of which the loss has minus the gradient, by enumeration: ``elbo``,
            ``inclusive``, or a function of your own.
        copies: How often the rows are repeated in a batch.
        repetitions: How many gradients are drawn, at least 20.

    Raises:
        BrokenPromiseError: The gradient is another one.
        UsageError: The draws are too few to tell: the standard error is above 5% of the exact gradient.

    Example:
        >>> from jsa import BeliefNetwork, LatentSpace, Layer
        >>> from jsa.estimators import LeaveOneOut
        >>> torch.manual_seed(1)
        <torch...>
        >>> model = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("bernoulli", 2)))
        >>> rows = Batch(torch.eye(4)[:2], torch.arange(2))
        >>> check_gradient(LeaveOneOut(), model, rows, elbo).agrees
        True
        >>> check_gradient(LeaveOneOut(), model, rows, inclusive)
        Traceback (most recent call last):
        jsa.errors.BrokenPromiseError: LeaveOneOut has another gradient than the objective: ...
    """
    if repetitions < 20:
        raise UsageError(f"a comparison of gradients needs at least 20 repetitions, not {repetitions}")
    exact = gradients(model, -objective(model, batch))
    with seeded(0), torch.enable_grad():
        draws = drawn_gradients(estimator, model, batch, copies, repetitions)
    found = compared(draws, exact)
    name = type(estimator).__name__
    if found.error > SHARPNESS:
        raise UsageError(
            f"the gradient of {name} is too noisy to be judged: its standard error is {found.error:.1%} of the exact "
            f"gradient, above {SHARPNESS:.0%}: draw more copies or repetitions"
        )
    if not found.agrees:
        raise BrokenPromiseError(
            f"{name} has another gradient than the objective: a component is {found.score:.1f} standard errors off, "
            f"and {found.limit:.1f} is the limit"
        )
    return found


def gradients(model: LatentVariableModel, loss: Tensor) -> Gradients:
    """Return the gradient of a loss by the names of the parameters that are not frozen."""
    named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    found = torch.autograd.grad(loss, list(named.values()), materialize_grads=True, allow_unused=True)
    return dict(zip(named, found, strict=True))


def drawn_gradients(
    estimator: Estimator,
    model: LatentVariableModel,
    batch: Batch,
    copies: int,
    repetitions: int,
    *,
    at_posterior: bool = True,
) -> Gradients:
    """Return gradients of so many copies of the rows, along a new first dimension.

    Chains are drawn from the exact posterior before each gradient, in stage II, unless ``at_posterior`` is False.
    """
    rows = repeated(batch, copies)
    estimator = copy.deepcopy(estimator).train()
    at_posterior = at_posterior and estimator.chains is not None
    if at_posterior and estimator.stage == Stage.FRESH:
        estimator.stage = Stage.PERSISTENT
    drawn = []
    for _ in range(repetitions):
        if at_posterior:
            place_chains(estimator, model, batch, copies)
        drawn.append(gradients(model, estimator(model, rows).loss))
    return {name: torch.stack([one[name] for one in drawn]) for name in drawn[0]}


def repeated(batch: Batch, copies: int) -> Batch:
    """Return the rows over and over, each time under a new row number: independent chains of the same rows."""
    rows = torch.arange(len(batch)).repeat(copies)
    again = batch.take(rows)
    # A batch of its own, because a taken one would compute what copies share only once.
    return Batch(again.x, torch.arange(len(rows)), again.context, again.known, again.weight, again.gaps)


@torch.no_grad()
def place_chains(estimator: Estimator, model: LatentVariableModel, batch: Batch, copies: int) -> None:
    """Draw the chains of repeated rows from the exact posterior."""
    rows = copies * len(batch)
    if estimator.chains is None or estimator.chains.rows < rows:
        raise UsageError(
            f"{copies} copies of {len(batch)} rows have {rows} chains: make {type(estimator).__name__} with rows={rows}"
        )
    states, joint, _ = _enumerated(model, batch)
    numbers = torch.multinomial(joint.softmax(0).T, copies, replacement=True).T.flatten()
    estimator.chains.write(torch.arange(rows), states[numbers], torch.ones(rows, dtype=torch.bool))


def compared(draws: Mapping[str, Tensor], exact: Mapping[str, Tensor]) -> GradientComparison:
    """Compare the mean of draws, along their first dimension, with the exact gradient."""
    count = len(next(iter(draws.values())))
    mean, error, expected = (
        torch.cat([part.double().flatten() for part in parts])
        for parts in zip(
            *((draws[name].mean(0), draws[name].std(0) / count**0.5, exact[name]) for name in exact), strict=True
        )
    )
    # A component that does not vary must be right to rounding.
    rounding = 100 * torch.finfo(next(iter(draws.values())).dtype).eps * float(expected.abs().max())
    score = float(((mean - expected).abs() / error.clamp_min(rounding)).max())
    limit = student_quantile(FALSE_ALARMS / (2 * len(expected)), count - 1)
    return GradientComparison(score, limit, float(error.norm() / expected.norm()))


def student_quantile(tail: float, degrees: int) -> float:
    """Return what Student's t exceeds with a small probability, for 19 degrees of freedom or more.

    The expansion of Cornish and Fisher, as in Abramowitz and Stegun 26.7.5: within 1% for tails of 1e-12 and more.
    """
    z = NormalDist().inv_cdf(1 - tail)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / degrees**power for power, term in enumerate(terms, start=1))


def _enumerated(
    model: LatentVariableModel, batch: Batch
) -> tuple[Float[Tensor, "states width"], Float[Tensor, "states batch"], Float[Tensor, "states batch"]]:
    """Return all states, their log p(x, h), and log q(h | x), minus infinity where they contradict what is known."""
    states = model.latent.enumerate(state_dtype(model, batch), batch.x.device)
    h = states.unsqueeze(1).expand(-1, len(batch), -1)
    inference = posterior_of(model, batch).log_prob(h).where(batch.agrees(h), -torch.inf)
    return states, log_joint_of_all(model, batch, states), inference
