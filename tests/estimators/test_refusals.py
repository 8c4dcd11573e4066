"""What the methods refuse, and in which words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from helpers.methods import NAMES, RELAXED, estimator_of, example_of
from helpers.refusals import refuses
from helpers.small_models import Example, categorical, one_layer, torch_posterior
from jsa import JSA, Batch, BeliefNetwork, Estimate, Estimator, LatentSpace, Layer
from jsa.estimators import ARM, ARMS, ARSM, Concrete, DisARM, Rebar, Reinforce, Relax, ReweightedWakeSleep

ANOTHER = "vimco, rloo or jsa$"
BIASED = ("concrete", "gumbel-softmax", "st-gumbel-softmax")
TWO_PARTICLES = {"rloo", "vimco", "arm", "disarm", "arms"}
NO_PARTICLES = {"enumeration", "arsm"}


def gaussian() -> Example:
    network = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("gaussian", 2))).double()
    return Example(network, one_layer().batch)


def mixed() -> Example:
    latent = LatentSpace.of(Layer("bernoulli", 2), Layer("categorical", 2, classes=3))
    return Example(BeliefNetwork(Layer("bernoulli", 4), latent), Batch(torch.ones(2, 4), torch.arange(2)))


def relaxable_torch_posterior() -> Example:
    example = torch_posterior()
    example.model.relaxable = True
    return example


class Silent(BeliefNetwork):
    """A network that does not tell its prior."""

    latent_conditionals = None  # type: ignore[assignment]


def silent() -> Example:
    network = Silent(Layer("bernoulli", 4), LatentSpace.of(Layer("bernoulli", 3)))
    return Example(network, Batch(torch.zeros(2, 4), torch.arange(2)))


def built(name: str, **options: float) -> Callable[[], Estimator]:
    example = example_of(name)
    return lambda: estimator_of(name, example.model, example.batch, seed=0, **options)


def step(make: Callable[[], Estimator], example: Callable[[], Example]) -> Callable[[], Estimate]:
    return lambda: make()(example().model, example().batch)


test_what_cannot_be_is_refused = refuses(
    *((built(name, particles=0), "particle") for name in NAMES),
    *((built(name, particles=1), "at least 2") for name in sorted(TWO_PARTICLES)),
    *((built(name, particles=1), "has no option particles") for name in sorted(NO_PARTICLES)),
    *(
        (built(name, particles=number), f"even number of particles, at least 2, not {number}$")
        for name in ("arm", "disarm")
        for number in (-2, 0, 1, 3)
    ),
    (built("arms", particles=1), "ARMS needs at least 2 particles, not 1"),
    *((built(name, particles=0), "at least 1 particle, not 0") for name in RELAXED),
    *((built(name, temperature=0.0), "positive number") for name in BIASED),
    *((built(name, temperature=0.0), "temperature of .* must be a positive number") for name in ("rebar", "relax")),
    *((built(name, scale=-1.0), "scale of .* must be a positive number") for name in ("rebar", "relax")),
    (
        lambda: Reinforce(baseline="runing"),  # type: ignore[arg-type]
        "the baseline of REINFORCE is one of none, running, not 'runing'",
    ),
    (lambda: JSA(one_layer().model.latent, rows=3, particles=-1), "JSA needs at least 1 particle, not -1"),
    *(
        (
            step(kind, example),
            f"^{kind.__name__} is for bernoulli latents, not {latents} ones: use arsm .* {ANOTHER}",
        )
        for kind in (ARM, DisARM, ARMS)
        for example, latents in ((categorical, "categorical"), (mixed, "categorical"), (gaussian, "gaussian"))
    ),
    *(
        (
            step(ARSM, example),
            f"^ARSM is for categorical latents, not {latents} ones: use arm or disarm .* {ANOTHER}",
        )
        for example, latents in ((one_layer, "bernoulli"), (mixed, "bernoulli"), (gaussian, "gaussian"))
    ),
    *(
        (step(kind, torch_posterior), f"LayeredPosterior has but TorchPosterior does not: use {ANOTHER}")
        for kind in (ARM, DisARM, ARMS)
    ),
    *((step(built(name), torch_posterior), f"relaxable is False.*use {ANOTHER}") for name in RELAXED),
    *((step(built(name), relaxable_torch_posterior), f"TorchPosterior does not: use {ANOTHER}") for name in RELAXED),
    *((step(built(name), gaussian), f"gaussian one: use {ANOTHER}") for name in RELAXED),
    (lambda: Rebar(gaussian().model.latent), f"gaussian one: use {ANOTHER}"),
    (lambda: Relax(gaussian().model.latent, inputs=4), f"gaussian one: use {ANOTHER}"),
    (step(Concrete, silent), "no method 'latent_conditionals': use vimco"),
    (
        step(lambda: ReweightedWakeSleep(sleep=0.5), torch_posterior),
        "sample_latent and observation, or use sleep=0",
    ),
)


@pytest.mark.parametrize("name", sorted(set(NAMES) - TWO_PARTICLES - NO_PARTICLES))
def test_one_particle_is_enough_for_the_others(name: str) -> None:
    example = example_of(name)
    assert built(name, particles=1)()(example.model, example.batch).loss.isfinite()
