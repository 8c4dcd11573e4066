"""The noise of estimators' gradients on one fixed batch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from jsa.batch import Batch
from jsa.errors import UsageError
from jsa.estimators import Estimator, Stage
from jsa.evaluation.moments import GROUPS, Moments, gradient_vectors, group_sizes
from jsa.evaluation.posterior_gradient import PosteriorGradient, moved
from jsa.evaluation.results import LogVariance
from jsa.evaluation.rows import Progress
from jsa.io.displays import figures_table
from jsa.model import LatentVariableModel
from jsa.model_calls import counting, posterior_of
from jsa.parameter_groups import parameter_groups
from jsa.torch_contexts import in_evaluation_mode


@dataclass(frozen=True)
class GradientReport:
    """The noise of one estimator on one batch, for theta and for phi.

    Attributes:
        given_state: The variance of a draw; for chains, with their states held fixed (the paper's figure).
        total: For chains, the variance with the states redrawn by a long chain before each draw; otherwise the same.
        squared_bias: For chains, the squared distance of the mean gradient from the posterior's, minus the noise of
            both; 0 unless it is two standard errors above zero.
        decoder_evaluations: The number of states per row that a draw passes through the decoder.
    """

    given_state: Mapping[str, LogVariance]
    total: Mapping[str, LogVariance]
    squared_bias: Mapping[str, float]
    decoder_evaluations: float

    def __str__(self) -> str:
        return "; ".join(f"{name}: {value}" for name, value in self._figures.items())

    def _repr_html_(self) -> str:
        return figures_table(self._figures)

    @property
    def _figures(self) -> dict[str, str]:
        figures = {}
        for name, total in self.total.items():
            figures[f"log variance of {name}"] = str(total)
            if self.given_state[name] != total:
                figures[f"log variance of {name}, chains held fixed"] = str(self.given_state[name])
            if name in self.squared_bias:
                figures[f"squared bias of {name}"] = f"{self.squared_bias[name]:.3g}"
        return figures | {"decoder evaluations": f"{self.decoder_evaluations:g} per row"}


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
    """Measure the variance and bias of an estimator's gradient on one batch, without storing the draws.

    A frozen chain has no variance given its state, so a comparison needs the total variance and the bias.

    Args:
        model: The model. Its parameters do not change.
        estimator: The estimator. Its chains, if any, start from their current states, or from q if they do not exist,
            and are restored at the end.
        batch: The batch.
        draws: The number of gradients.
        moves: For chains: the Metropolis moves that redraw the states before each draw of the total variance.
        reference: For chains: the posterior's gradient, from ``posterior_gradient``. Without it there is no bias.
        progress: Called with 1 after each draw.

    Example:
        >>> from jsa import JSA, BeliefNetwork, LatentSpace, Layer, posterior_gradient
        >>> model = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("bernoulli", 3)))
        >>> batch = Batch(torch.eye(4), torch.arange(4))
        >>> estimator = JSA(model.latent, rows=4)
        >>> reference = posterior_gradient(model, batch)
        >>> report = gradient_report(model, estimator, batch, draws=200, reference=reference)
        >>> sorted(report.total), sorted(report.squared_bias)
        (['phi', 'theta'], ['phi', 'theta'])
        >>> report.decoder_evaluations >= 3  # the state of the chain and two proposals, and some of them once more
        True

    References:
        Ou and Song, UAI 2020, figure on gradient variance.
    """
    check_draws(draws)
    if moves < 1:
        raise UsageError(f"chains must be redrawn by 1 move or more, not {moves}")
    groups = parameter_groups(model, batch)
    # In evaluation mode a draw changes no running mean and writes no chain.
    with in_evaluation_mode(estimator), counting() as counter:
        state = None
        if estimator.chains is not None:
            # Rows without a chain get a state of q, the others have theirs from training.
            state = estimator.chains.initial_states(batch, posterior_of(model, batch))
        counter.states = 0
        given_state, _ = _variances(model, estimator, batch, groups, draws, state, 0, progress)
        evaluations = counter.states / (draws * len(batch))
        if estimator.chains is None:
            return GradientReport(given_state, given_state, {}, evaluations)
        total, means = _variances(model, estimator, batch, groups, draws, state, moves, progress)
    if reference is None:
        return GradientReport(given_state, total, {}, evaluations)
    bias = {
        name: squared_bias(by_group, reference.gradients[name], reference.squared_errors[name])
        for name, by_group in means.items()
    }
    return GradientReport(given_state, total, bias, evaluations)


def gradient_variance(
    model: LatentVariableModel,
    estimator: Estimator,
    batch: Batch,
    draws: int = 1000,
    *,
    progress: Progress | None = None,
) -> dict[str, LogVariance]:
    """Return the variance of an estimator's gradient on one batch for theta and phi, in its current stage.

    In stage II chains start from their current states.

    Args:
        model: The model. Its parameters do not change.
        estimator: The estimator. Its persistent chains do not move.
        batch: The batch.
        draws: The number of gradients.
        progress: Called with 1 after each draw.

    Example:
        >>> from jsa import BeliefNetwork, LatentSpace, Layer, LeaveOneOut, Reinforce
        >>> torch.manual_seed(1)
        <torch...>
        >>> model = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("bernoulli", 3)))
        >>> batch = Batch(torch.eye(4))
        >>> noisy = gradient_variance(model, Reinforce(particles=2), batch, draws=200)
        >>> centered = gradient_variance(model, LeaveOneOut(particles=2), batch, draws=200)
        >>> centered["phi"].high < noisy["phi"].low  # the logarithm of the variance, with its interval
        True
    """
    check_draws(draws)
    groups = parameter_groups(model, batch)
    with in_evaluation_mode(estimator):
        state = None
        if estimator.chains is not None and estimator.stage == Stage.PERSISTENT:
            state = estimator.chains.initial_states(batch, posterior_of(model, batch))
        return _variances(model, estimator, batch, groups, draws, state, 0, progress)[0]


def check_draws(draws: int) -> None:
    """Refuse too few draws for an interval."""
    if draws < 2 * GROUPS:
        raise UsageError(f"a variance with an interval needs at least {2 * GROUPS} draws, not {draws}")


@torch.enable_grad()
def _variances(
    model: LatentVariableModel,
    estimator: Estimator,
    batch: Batch,
    groups: Mapping[str, Sequence[nn.Parameter]],
    draws: int,
    state: Float[Tensor, "batch width"] | None,
    moves: int,
    progress: Progress | None,
) -> tuple[dict[str, LogVariance], dict[str, list[Tensor]]]:
    """Return the variance for each set of parameters, and the mean gradient of each group of draws."""
    everything = {name: Moments() for name in groups}
    by_group: dict[str, list[float]] = {name: [] for name in groups}
    means: dict[str, list[Tensor]] = {name: [] for name in groups}
    for size in group_sizes(draws):
        group = {name: Moments() for name in groups}
        for _ in range(size):
            if moves and state is not None:
                with torch.no_grad():
                    state = moved(model, batch, posterior_of(model, batch), state, moves)
            for name, gradient in gradient_vectors(estimator.estimate_from(model, batch, state).loss, groups).items():
                group[name].add(gradient)
            if progress is not None:
                progress(1)
        for name in groups:
            by_group[name].append(group[name].summed_variance)
            means[name].append(torch.as_tensor(group[name].mean))
            everything[name].merge(group[name])
    variances = {name: _interval(everything[name].summed_variance, by_group[name]) for name in groups}
    return variances, means


def _interval(variance: float, by_group: Sequence[float]) -> LogVariance:
    if variance <= 0:
        return LogVariance(-math.inf, -math.inf, -math.inf)
    spread = float(torch.tensor(by_group, dtype=torch.float64).std()) / math.sqrt(len(by_group))
    half = 2.262 * spread / variance  # Student's quantile for nine degrees of freedom
    return LogVariance(math.log(variance), math.log(variance) - half, math.log(variance) + half)


STANDARD_ERRORS = 2.0
"""The number of standard errors by which a squared bias must exceed zero to be reported."""


def squared_bias(
    means: Sequence[Float[Tensor, " components"]], target: Float[Tensor, " components"], target_error: float = 0.0
) -> float:
    """Return the squared distance between the mean of groups of draws and a target, minus their noise.

    The square of a mean includes its noise; products of the deviations of two different groups do not. Their mean is
    unbiased, and its standard error comes from leaving out each group in turn. The result is zero unless the mean is
    two standard errors above zero, because positive noise would look like a bias.

    Args:
        means: The mean of each group; three or more groups of about equal size.
        target: The value that the mean should have.
        target_error: The expected squared error of the target itself, if it is an estimate.

    Example:
        >>> squared_bias([torch.tensor([2.9]), torch.tensor([3.0]), torch.tensor([3.1])], target=torch.zeros(1))
        8.99...
        >>> squared_bias([torch.tensor([1.0]), torch.tensor([-1.0]), torch.tensor([0.2])], target=torch.zeros(1))
        0.0
    """
    count = len(means)
    deviations = torch.stack([mean.double() - target.double() for mean in means])
    products = deviations @ deviations.T
    own, total = products.diagonal(), products.sum()
    estimate = float(total - own.sum()) / (count * (count - 1))
    # The same without each group: without its products with others and with itself.
    without = (total - 2 * products.sum(0) + own - (own.sum() - own)) / ((count - 1) * (count - 2))
    variance = (count - 1) / count * float((without - without.mean()).square().sum())
    # The squared error of one estimated number has the largest variance that a sum of them can have: twice its square.
    error = math.sqrt(variance + 2 * target_error**2)
    found = estimate - target_error
    return found if found > STANDARD_ERRORS * error else 0.0
