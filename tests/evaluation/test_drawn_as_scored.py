"""Draws are compared with log-probabilities by statistics of known law, which every wrong model here exceeds."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

from helpers import misdrawn_models as models
from helpers.significance import FAILURE_RATE
from helpers.sizes import sizes
from jsa import Batch, LatentSpace, LatentVariableModel, Layer, check_model
from jsa.errors import NumericalError, UsageError
from jsa.evaluation.drawn_as_scored import check_draws
from jsa.evaluation.exchangeable_pairs import TAIL, ExchangeablePairs, p_values

Make = Callable[[], LatentVariableModel]
SAMPLE = "does not draw what .*log_prob says: .* standard deviations .* draw and score with the same logits, ancestors"
JOINT = "does not draw what .*log_joint says: .* standard deviations .* the prior included, once"

RIGHT: dict[str, Make] = {
    "autoregressive": models.autoregressive,
    "two-layers": models.two_layers,
    "categorical": models.categorical,
    "gaussian": models.gaussian,
    "mixed": models.mixed,
    "saturated": models.saturated,
    "torch": models.from_torch,
    "generative": models.generative,
    "one-prior": lambda: models.with_priors(1),
    "conditional": models.conditional,
    "gaps-and-known-bits": models.generative,
}

WRONG: dict[str, tuple[Make, str]] = {
    "padding-scored": (lambda: models.autoregressive(padded=20), rf"Autoregressive.sample {SAMPLE}"),
    "shifted-by-one": (lambda: models.autoregressive(scored=models.shifted), SAMPLE),
    "peeking-at-itself": (lambda: models.autoregressive(scored=models.itself_too), SAMPLE),
    "other-temperature": (lambda: models.autoregressive(temperature=1.25), SAMPLE),
    "other-temperature-of-one": (
        lambda: models.autoregressive(temperature=models.warmer(40, 39)),
        "does not draw what .*log_prob says: bit 39 of h .*draw and score",
    ),
    "many-bits-shifted": (lambda: models.autoregressive(60, scored=models.shifted), SAMPLE),
    "ancestors-forgotten": (lambda: models.two_layers(torch.zeros_like), SAMPLE),
    "ancestors-of-other-places": (lambda: models.two_layers(lambda h: h.roll(1, -1)), SAMPLE),
    "rows-for-classes": (lambda: models.categorical(0), "rows or states know of each other"),
    "wider": (lambda: models.gaussian(1.15), SAMPLE),
    "no-prior": (lambda: models.with_priors(0), rf"Generating.sample_latent {JOINT}"),
    "prior-twice": (lambda: models.with_priors(2), rf"Generating.sample_latent {JOINT}"),
    "other-decoder": (lambda: models.observing(lambda logits: logits.roll(1, -1)), JOINT),
    "decoder-of-other-temperature": (lambda: models.observing(lambda logits: logits / 2), JOINT),
}


def made(make: Make) -> LatentVariableModel:
    torch.manual_seed(0)
    return make()


def rows(name: str) -> Batch:
    """Rows that fit a model: with a context if it needs one, and with gaps and known bits if these are its name."""
    batch = models.batch()
    if name == "conditional":
        return replace(batch, context=torch.randn(4, 5, generator=torch.Generator().manual_seed(1)))
    if name == "gaps-and-known-bits":
        known = torch.full((4, 30), torch.nan)
        known[0, :20], known[1, 5], known[2] = 1.0, 0.0, 1.0
        return replace(batch, x=batch.x.masked_fill(torch.eye(4, models.WIDTH) > 0, torch.nan), known=known)
    return batch


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Tensor]]:
    """The statistics of all comparisons, none of which then stops a check."""
    statistics: list[dict[str, Tensor]] = []
    monkeypatch.setattr(
        ExchangeablePairs,
        "finding",
        lambda pairs, rate: statistics.append(pairs.statistics),
    )
    return statistics


def p_values_of(model: LatentVariableModel, batch: Batch, seeds: int, seen: list[dict[str, Tensor]]) -> list[Tensor]:
    """Those of one statistic of each family over the seeds, and of all of the whole."""
    for seed in range(seeds):
        torch.manual_seed(seed)
        check_draws(model, batch, draws=1_000)
    comparisons, found = len(seen) // seeds, []
    for comparison in range(comparisons):
        ours = seen[comparison::comparisons]
        for family in ours[0]:
            z = torch.stack([statistics[family] for statistics in ours])
            # One that is rarely zero, for others move in too large steps.
            columns = range(z.shape[1]) if family == "whole" else [int((z != 0).sum(0).argmax())]
            found += [p_values(z[:, column]) for column in columns]
    return found


def least_uniform(found: list[Tensor], **options: Any) -> float:
    """The smallest p-value of Kolmogorov and Smirnov, times their number."""
    return len(found) * min(stats.kstest(values, "uniform", **options).pvalue for values in found)


@pytest.mark.parametrize("seeds", sizes(10, 200))
@pytest.mark.parametrize("name", sorted(RIGHT.keys() - {"saturated"}))
def test_right_models_have_uniform_p_values(name: str, seeds: int, seen: list[dict[str, Tensor]]) -> None:
    assert least_uniform(p_values_of(made(RIGHT[name]), rows(name), seeds, seen)) > FAILURE_RATE


@pytest.mark.parametrize("seeds", sizes(10, 200))
def test_where_hardly_anything_changes_p_values_are_no_smaller_than_promised(
    seeds: int, seen: list[dict[str, Tensor]]
) -> None:
    found = p_values_of(made(models.saturated), models.batch(), seeds, seen)
    promised = [(TAIL * values).clamp_max(1) for values in found]
    assert least_uniform(promised, alternative="greater") > FAILURE_RATE


@pytest.mark.parametrize("name", ["other-temperature", "no-prior"])
def test_wrong_models_have_other_p_values(name: str, seen: list[dict[str, Tensor]]) -> None:
    assert least_uniform(p_values_of(made(WRONG[name][0]), rows(name), 10, seen)) < FAILURE_RATE


@pytest.mark.parametrize("seeds", sizes(2, 50))
@pytest.mark.parametrize("name", WRONG)
def test_wrong_models_are_refused_whatever_the_seed(name: str, seeds: int) -> None:
    make, sentence = WRONG[name]
    model = made(make)
    for seed in range(seeds):
        torch.manual_seed(seed)
        with pytest.raises(UsageError, match=sentence):
            check_model(model, rows(name))


@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0], [3.0, 2.0, 1.0, 1.0], [1.0] * 12, [0.7**n for n in range(12)]])
def test_sums_with_fair_signs_exceed_no_limit_more_often_than_promised(weights: list[float]) -> None:
    signs = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=len(weights))), dtype=torch.float64)
    z = signs @ torch.tensor(weights, dtype=torch.float64) / sum(weight**2 for weight in weights) ** 0.5
    # A little below each value, so that rounding does not separate equal ones.
    limits = z.abs().unique() - 1e-9
    often = (z.abs() >= limits.unsqueeze(1)).double().mean(1)
    promised = p_values(limits)
    assert (often <= TAIL * promised).all()
    # A normal law alone would promise too much.
    assert len(weights) != 2 or (often > 3 * promised).any()


# What cannot be compared is said


class Sampled(models.Generating):
    """A right belief network with another sampler of states or observations."""

    def __init__(self, states: Callable[[Tensor], Any] = lambda h: h, seen: Callable[[Any], Any] = lambda p: p):
        super().__init__(models.generative())
        self.states, self.seen = states, seen

    def sample_latent(self, shape: tuple[int, ...], context: Tensor | None = None) -> Tensor:
        drawn: Tensor = self.states(super().sample_latent(shape, context))
        return drawn

    def observation(self, h: Tensor, context: Tensor | None = None) -> Any:
        return self.seen(super().observation(h, context))


def refused(states: Tensor) -> Tensor:
    raise ValueError("no states today")


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (lambda: Sampled(lambda h: h[:, :4]), r"Sampled.sample_latent returned shape \(.*, 4\) for .* of width 30"),
        (lambda: Sampled(lambda h: h / 2), "or what is no state of the latent space"),
        (lambda: Sampled(refused), r"Sampled cannot be sampled \(no states today\): sample_latent\(shape, context\)"),
        (lambda: Sampled(seen=lambda p: p.mean), "Sampled.observation returned Tensor, which lacks mean or sample"),
    ],
    ids=["width", "states", "error", "observation"],
)
def test_a_sampler_that_does_not_work_is_refused(model: Make, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        check_model(made(model), models.batch())


def test_rows_of_another_form_than_draws_are_left_alone(seen: list[dict[str, Tensor]]) -> None:
    # A network that scales and flattens pictures has no distribution of such x.
    model, batch = made(models.generative), models.batch()
    check_draws(model, replace(batch, x=255 * batch.x), draws=1_000)
    assert len(seen) == 1
    check_draws(model, batch, draws=1_000)
    assert len(seen) == 4


def test_draws_of_probability_zero_are_named() -> None:
    class Impossible(models.Autoregressive):
        def log_prob(self, h: Tensor) -> Tensor:
            return super().log_prob(h).masked_fill(h[..., 0] > 0, -torch.inf)

    model = made(lambda: models.Own(LatentSpace.of(Layer("bernoulli", 40)), Impossible))
    torch.manual_seed(0)
    with pytest.raises(NumericalError, match=r"Impossible.log_prob is -inf at row ., at a state that was drawn"):
        check_draws(model, models.batch(), draws=1_000)


def test_log_probabilities_that_are_no_number_are_named() -> None:
    class Undefined(models.Autoregressive):
        def sample(self, shape: tuple[int, ...]) -> Tensor:
            return super().sample(shape).index_fill(-1, torch.tensor(0), 0.0)

        def log_prob(self, h: Tensor) -> Tensor:
            return super().log_prob(h).masked_fill(h[..., 0] > 0, torch.nan)

    model = made(lambda: models.Own(LatentSpace.of(Layer("bernoulli", 40)), Undefined))
    torch.manual_seed(0)
    with pytest.raises(NumericalError, match=r"Undefined.log_prob is nan at row ., at a state of the latent space"):
        check_draws(model, models.batch(), draws=1_000)


def test_few_draws_are_refused() -> None:
    with pytest.raises(UsageError, match="draws must be 100 or more, not 10"):
        check_model(made(models.autoregressive), models.batch(), draws=10)
