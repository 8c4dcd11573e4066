"""Draws are compared with log-probabilities by statistics of known law, which every wrong model here exceeds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from scipy import stats
from torch import Tensor

from helpers import misdrawn_models as models
from helpers.significance import FAILURE_RATE
from helpers.sizes import sizes
from jsa import Batch, LatentVariableModel, check_model
from jsa.errors import UsageError
from jsa.evaluation.drawn_as_scored import check_draws
from jsa.evaluation.exchangeable_pairs import ExchangeablePairs, p_values

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
    "decoder-of-other-temperature": (lambda: models.observing(lambda logits: logits / 1.5), JOINT),
}


def made(make: Make) -> LatentVariableModel:
    torch.manual_seed(0)
    return make()


def rows(name: str) -> Batch:
    """Rows that fit a model, with a context if it needs one."""
    generator = torch.Generator().manual_seed(1)
    return models.batch(context=torch.randn(4, 5, generator=generator)) if name == "conditional" else models.batch()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Tensor]]:
    """The statistics of all comparisons, none of which then stops a check."""
    statistics: list[dict[str, Tensor]] = []
    monkeypatch.setattr(
        ExchangeablePairs,
        "finding",
        lambda pairs, rate: statistics.append(pairs.statistics),  # type: ignore[func-returns-value]
    )
    return statistics


def least_uniform(seen: list[dict[str, Tensor]], comparisons: int) -> float:
    """The smallest p-value of Kolmogorov and Smirnov, times their number: of one statistic of each family, and those
    of the whole."""
    found = []
    for comparison in range(comparisons):
        ours = seen[comparison::comparisons]
        for family in ours[0]:
            z = torch.stack([statistics[family] for statistics in ours])
            # One that is rarely zero, for others move in too large steps.
            columns = range(z.shape[1]) if family == "whole" else [int((z != 0).sum(0).argmax())]
            found += [stats.kstest(p_values(z[:, column]), "uniform").pvalue for column in columns]
    return len(found) * min(found)


@torch.no_grad()
@pytest.mark.parametrize("seeds", sizes(20, 2_000))
@pytest.mark.parametrize("name", RIGHT)
def test_right_models_have_uniform_p_values(name: str, seeds: int, seen: list[dict[str, Tensor]]) -> None:
    model, batch = made(RIGHT[name]), rows(name)
    for seed in range(seeds):
        torch.manual_seed(seed)
        check_draws(model, batch, draws=1_000)
    assert least_uniform(seen, len(seen) // seeds) > FAILURE_RATE


@torch.no_grad()
@pytest.mark.parametrize("name", ["other-temperature", "no-prior"])
def test_wrong_models_have_other_p_values(name: str, seen: list[dict[str, Tensor]]) -> None:
    model = made(WRONG[name][0])
    for seed in range(30):
        torch.manual_seed(seed)
        check_draws(model, rows(name), draws=1_000)
    assert least_uniform(seen, len(seen) // 30) < FAILURE_RATE


@pytest.mark.parametrize("seeds", sizes(3, 2_000))
@pytest.mark.parametrize("name", WRONG)
def test_wrong_models_are_refused_whatever_the_seed(name: str, seeds: int) -> None:
    make, sentence = WRONG[name]
    model = made(make)
    for seed in range(seeds):
        torch.manual_seed(seed)
        with pytest.raises(UsageError, match=sentence):
            check_model(model, rows(name))
