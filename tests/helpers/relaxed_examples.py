"""The relaxed methods, and the small models on which they are tested."""

from __future__ import annotations

import pytest

from helpers.conformance.relaxed import RELAXABLE, randomised_networks
from helpers.gradient_checks import gradient_draws
from helpers.small_models import EXAMPLES, STYLE, Example, Gradients, bits, randomize, repeated
from jsa import BeliefNetwork, LatentSpace, Layer
from jsa.estimators import Estimator
from jsa.estimators.concrete import Concrete
from jsa.estimators.gumbel_softmax import GumbelSoftmax
from jsa.estimators.muprop import MuProp
from jsa.estimators.relax import Relax
from jsa.estimators.straight_through import StraightThrough

NAMES = pytest.mark.parametrize("name", [*RELAXABLE, "mixed layers"])
BIASED = {"Concrete": Concrete, "Gumbel-Softmax": GumbelSoftmax, "straight-through": StraightThrough}


def mixed_layers() -> Example:
    """A categorical variable above two bits."""
    latent = LatentSpace.of(Layer("bernoulli", 2), Layer("categorical", 1, classes=3))
    network = BeliefNetwork(Layer("bernoulli", 4), latent, (5,), prior="learned", style=STYLE)
    return Example(randomize(network, 53), bits(rows=3, width=4))


def small(name: str) -> Example:
    return mixed_layers() if name == "mixed layers" else EXAMPLES[name]()


def made(kind: type[Estimator], example: Example, **options: object) -> Estimator:
    """The estimator in double precision, its networks not zero."""
    given: dict[str, object] = dict(options)
    if kind is not MuProp:
        given["latent"] = example.model.latent
    if kind is Relax:
        context = 0 if example.batch.context is None else example.batch.context.shape[1]
        given |= {"inputs": example.batch.x.shape[1] + context, "hidden": 4}
    estimator = kind(**given).double()
    return randomised_networks(estimator) if isinstance(estimator, Relax) else estimator


def draws_of(estimator: Estimator, example: Example, copies: int = 2_000, repetitions: int = 40) -> Gradients:
    return gradient_draws(estimator, example.model, repeated(example.batch, copies), repetitions)
