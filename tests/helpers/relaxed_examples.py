"""The relaxed methods, and the small models on which they are tested."""

from __future__ import annotations

from helpers.conformance.relaxed import randomised_networks
from helpers.gradient_checks import gradient_draws
from helpers.small_models import Example, Gradients, repeated
from jsa.estimators import Estimator
from jsa.estimators.muprop import MuProp
from jsa.estimators.relax import Relax


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
