"""How noisy the gradients of estimators are, on one fixed batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from jsa.counting import counting
from jsa.errors import UsageError
from jsa.estimators import Enumeration, Estimator, PersistentEstimator, Stage
from jsa.estimators.weighted import weighted_loss
from jsa.evaluation.likelihood import Progress
from jsa.evaluation.score import LogVariance
from jsa.latent import ENUMERATION_LIMIT
from jsa.model import LatentVariableModel, Posterior, draw
from jsa.modes import in_evaluation_mode
from jsa.samplers import metropolis_independence
from jsa.types import Batch

GROUPS = 10
"""The draws are divided into so many groups, whose spread gives the interval."""

MOVES_AT_ONCE = 20


@dataclass(frozen=True)
class GradientReport:
    """The noise of one estimator on one batch, for theta and for phi.

    Attributes:
        given_state: The variance of a draw; for chains, with the chains' states held fixed (the paper's figure).
        total: For chains, the variance with the states redrawn by a long chain before each draw; otherwise the same.
        squared_bias: For chains, the squared distance of the mean gradient from the posterior's, less the noise of
            both; 0 where it is not above that noise.
        decoder_evaluations: States a row that a draw passed through the decoder.
    """

    given_state: Mapping[str, LogVariance]
    total: Mapping[str, LogVariance]
    squared_bias: Mapping[str, float]
    decoder_evaluations: float


@dataclass(frozen=True)
class PosteriorGradient:
    """The gradient that methods with chains aim at, for theta and for phi.

    Attributes:
        gradients: Each as one vector.
        squared_errors: The noise of each, summed over its components: from the spread over parts of the long chains, so
            too low where a chain remembers for longer than such a part; 0 where the gradient was enumerated.
    """

    gradients: Mapping[str, Tensor]
    squared_errors: Mapping[str, float]


class Moments:
    """Mean and variance of vectors that come one by one, by Welford's recursion: never more than three of them."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: Tensor | float = 0.0
        self._squares: Tensor | float = 0.0

    def add(self, vector: Tensor) -> None:
        """Takes one more vector."""
        self.count += 1
        deviation = vector - self.mean
        self.mean = self.mean + deviation / self.count
        self._squares = self._squares + deviation * (vector - self.mean)

    def merge(self, other: Moments) -> None:
        """Takes all vectors that another one has seen."""
        total = self.count + other.count
        deviation = other.mean - self.mean
        self._squares = self._squares + other._squares + deviation**2 * (self.count * other.count / total)
        self.mean = self.mean + deviation * (other.count / total)
        self.count = total

    @property
    def summed_variance(self) -> float:
        """The sum over components of the variance."""
        return float(torch.as_tensor(self._squares).sum()) / (self.count - 1)


def gradient_report(
    model: LatentVariableModel,
    estimator: Estimator,
    batch: Batch,
    draws: int = 1000,
    *,
    moves: int = 100,
    reference: PosteriorGradient | None = None,
    progress: Progress | None = None,
) -> GradientReport:
    """Measures the variance of an estimator's gradient on one batch, streaming.

    A frozen chain has no variance given its state, so a verdict needs the total variance and the bias.

    Args:
        model: The model, whose parameters stay as they are.
        estimator: The estimator. Its chains, if any, start from where they stand, or from q where they do not exist;
            in the end they stand there again.
        batch: The batch.
        draws: The number of gradients.
        moves: For chains: the Metropolis moves that redraw the states before each draw of the total variance.
        reference: For chains: the posterior's gradient, from ``posterior_gradient``; no bias is given without it.
        progress: Called with 1 after each draw.

    References:
        Ou and Song, UAI 2020, figure on gradient variance.
    """
    check_draws(draws)
    if moves < 1:
        raise UsageError(f"chains are redrawn by 1 move or more, not {moves}")
    groups = parameter_groups(model, batch)
    # In evaluation mode no running mean moves and no chain is written by a draw.
    with in_evaluation_mode(estimator), _held_chains(estimator, batch), counting(model) as counter:
        if isinstance(estimator, PersistentEstimator):
            estimator.stage = Stage.PERSISTENT
            # Rows without a chain get one; the others stay where training left them.
            _move_chains(model, estimator, batch, 0)
        counter.states = 0
        given_state, _ = _variances(model, estimator, batch, groups, draws, 0, progress)
        evaluations = counter.states / (draws * len(batch))
        if not isinstance(estimator, PersistentEstimator):
            return GradientReport(given_state, given_state, {}, evaluations)
        total, means = _variances(model, estimator, batch, groups, draws, moves, progress)
    if reference is None:
        return GradientReport(given_state, total, {}, evaluations)
    bias = {}
    for name, mean in means.items():
        noise = math.exp(total[name].log_variance) / draws + reference.squared_errors[name]
        bias[name] = max(0.0, float((mean - reference.gradients[name]).square().sum()) - noise)
    return GradientReport(given_state, total, bias, evaluations)


def gradient_variance(
    model: LatentVariableModel,
    estimator: Estimator,
    batch: Batch,
    draws: int = 1000,
    *,
    progress: Progress | None = None,
) -> dict[str, LogVariance]:
    """The variance of an estimator's gradient on one batch for theta and phi, in the stage that the estimator is in.

    Args:
        model: The model, whose parameters stay as they are.
        estimator: The estimator; chains that persist stay where they stand.
        batch: The batch.
        draws: The number of gradients.
        progress: Called with 1 after each draw.
    """
    check_draws(draws)
    with in_evaluation_mode(estimator):
        return _variances(model, estimator, batch, parameter_groups(model, batch), draws, 0, progress)[0]


@torch.enable_grad()
def posterior_gradient(
    model: LatentVariableModel, batch: Batch, moves: int = 20_000, burn_in: int | None = None
) -> PosteriorGradient:
    """The gradient that methods with chains aim at: enumerated where that is possible, else from long chains.

    Args:
        model: The model.
        batch: The batch.
        moves: The Metropolis moves of each row's long chain.
        burn_in: How many of them come before the average; a twentieth where not given.
    """
    before = moves // 20 if burn_in is None else burn_in
    check_reference_moves(moves, before)
    groups = parameter_groups(model, batch)
    if can_be_enumerated(model):
        exact = _gradient(Enumeration()(model, batch).loss, groups)
        return PosteriorGradient(exact, dict.fromkeys(exact, 0.0))
    with torch.no_grad():
        posterior = model.posterior(batch)
        state = _moved(model, batch, posterior, posterior.sample((1,))[0], before)
    parts = {name: Moments() for name in groups}
    total: dict[str, Tensor] = {}
    for size in _sizes(moves - before):
        part: dict[str, Tensor] = {}
        for count in _rounds(size):
            posterior = model.posterior(batch)
            with torch.no_grad():
                trajectory = metropolis_independence(model, batch, posterior, state, count)
            state = trajectory.last
            weights = trajectory.multiplicities.to(state.dtype) / count
            loss = weighted_loss(model, batch, trajectory.evaluated, weights).loss
            for name, gradient in _gradient(loss, groups).items():
                part[name] = part.get(name, torch.zeros_like(gradient)) + gradient * (count / size)
        for name, mean in part.items():
            parts[name].add(mean)
            total[name] = total.get(name, torch.zeros_like(mean)) + mean * (size / (moves - before))
    return PosteriorGradient(total, {name: seen.summed_variance / GROUPS for name, seen in parts.items()})


def can_be_enumerated(model: LatentVariableModel) -> bool:
    """Whether the posterior's gradient is summed over all states, and not taken from long chains."""
    return model.latent.states <= min(ENUMERATION_LIMIT, 4096)


def check_reference_moves(moves: int, burn_in: int = 0) -> None:
    """Refuses so few moves of the long chains that they leave no average, or one whose noise cannot be told."""
    if moves < GROUPS:
        raise UsageError(f"the long chains of the reference need at least {GROUPS} moves, not {moves}")
    if not 0 <= burn_in <= moves - GROUPS:
        raise UsageError(f"{moves} moves leave room for a burn-in of 0 to {moves - GROUPS}, not {burn_in}")


@torch.enable_grad()
def parameter_groups(model: LatentVariableModel, batch: Batch) -> dict[str, list[nn.Parameter]]:
    """The parameters of the model, theta, and those of the inference model, phi: the ones that log q depends on.

    Parameters that are frozen are in neither.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise UsageError("no parameter of the model has a gradient: unfreeze some with requires_grad_()")
    _, log_inference = draw(model.posterior(batch), 1)
    reached: Sequence[Tensor | None] = [None] * len(parameters)
    if log_inference.requires_grad:
        reached = torch.autograd.grad(log_inference.sum(), parameters, allow_unused=True)
    phi = [parameter for parameter, gradient in zip(parameters, reached, strict=True) if gradient is not None]
    known = {id(parameter) for parameter in phi}
    return {"theta": [parameter for parameter in parameters if id(parameter) not in known], "phi": phi}


def check_draws(draws: int) -> None:
    """Refuses so few draws that they have no interval."""
    if draws < 2 * GROUPS:
        raise UsageError(f"a variance with an interval needs at least {2 * GROUPS} draws, not {draws}")


@torch.enable_grad()
def _variances(
    model: LatentVariableModel,
    estimator: Estimator,
    batch: Batch,
    groups: Mapping[str, Sequence[nn.Parameter]],
    draws: int,
    moves: int,
    progress: Progress | None,
) -> tuple[dict[str, LogVariance], dict[str, Tensor]]:
    """The variance of each set of parameters, and the mean gradients."""
    everything = {name: Moments() for name in groups}
    by_group: dict[str, list[float]] = {name: [] for name in groups}
    for size in _sizes(draws):
        group = {name: Moments() for name in groups}
        for _ in range(size):
            if moves and isinstance(estimator, PersistentEstimator):
                _move_chains(model, estimator, batch, moves)
            for name, gradient in _gradient(estimator(model, batch).loss, groups).items():
                group[name].add(gradient)
            if progress is not None:
                progress(1)
        for name in groups:
            by_group[name].append(group[name].summed_variance)
            everything[name].merge(group[name])
    variances = {name: _interval(everything[name].summed_variance, by_group[name]) for name in groups}
    return variances, {name: torch.as_tensor(everything[name].mean) for name in groups}


def _interval(variance: float, by_group: Sequence[float]) -> LogVariance:
    if variance <= 0:
        return LogVariance(-math.inf, -math.inf, -math.inf)
    spread = float(torch.tensor(by_group, dtype=torch.float64).std()) / math.sqrt(len(by_group))
    half = 2.262 * spread / variance  # Student's quantile for nine degrees of freedom
    return LogVariance(math.log(variance), math.log(variance) - half, math.log(variance) + half)


def _gradient(loss: Tensor, groups: Mapping[str, Sequence[nn.Parameter]]) -> dict[str, Tensor]:
    """The gradient as one vector for each set of parameters."""
    flat = [parameter for parameters in groups.values() for parameter in parameters]
    found = iter(torch.autograd.grad(loss, flat, allow_unused=True))
    vectors = {}
    for name, parameters in groups.items():
        parts = [
            torch.zeros_like(parameter) if gradient is None else gradient
            for parameter, gradient in zip(parameters, found, strict=False)
        ]
        vectors[name] = torch.cat([loss.new_zeros(0), *(part.flatten() for part in parts)]).double()
    return vectors


@torch.no_grad()
def _move_chains(model: LatentVariableModel, estimator: PersistentEstimator, batch: Batch, moves: int) -> None:
    posterior = model.posterior(batch)
    state = estimator.initial_states(batch, posterior)
    state = _moved(model, batch, posterior, state, moves)
    estimator.cache.write(batch.index, state, torch.ones(len(batch), dtype=torch.bool, device=state.device))


def _moved(model: LatentVariableModel, batch: Batch, posterior: Posterior, state: Tensor, moves: int) -> Tensor:
    """Where chains stand after so many moves."""
    for count in _rounds(moves):
        state = metropolis_independence(model, batch, posterior, state, count).last
    return state


def _rounds(moves: int) -> Iterator[int]:
    """The moves in parts that are made at once."""
    for done in range(0, moves, MOVES_AT_ONCE):
        yield min(MOVES_AT_ONCE, moves - done)


def _sizes(count: int) -> list[int]:
    """How many of so many draws are in each group."""
    return [count // GROUPS + (number < count % GROUPS) for number in range(GROUPS)]


@contextmanager
def _held_chains(estimator: Estimator, batch: Batch) -> Iterator[None]:
    """Within it the chains of a batch may be moved; then they are where they were, and in the stage they were in."""
    if not isinstance(estimator, PersistentEstimator):
        yield
        return
    stage = estimator.stage
    try:
        with estimator.cache.held(batch.index):
            yield
    finally:
        estimator.stage = stage
