"""The methods whose control variate is the objective between the states."""

from __future__ import annotations

import torch
from torch import Tensor

from helpers.conformance.cases import Case, Make, of
from helpers.small_models import randomize
from jsa import Batch, LatentVariableModel
from jsa.batch import Estimate
from jsa.estimators.base import Estimator
from jsa.estimators.muprop import MuProp
from jsa.estimators.rebar import Rebar
from jsa.estimators.relax import Relax
from jsa.model_calls import log_joint
from jsa.relaxation import (
    Discrete,
    conditionally_perturbed,
    discrete,
    hard,
    perturbed,
    relaxable_posterior,
    relaxed,
    uniforms_for,
)

RELAXABLE = ("one-layer", "two-layers", "categorical", "conditional")


EVERY_RELAXABLE = (*RELAXABLE, "mixed layers")


def made(kind: type[Estimator], **options: object) -> Make:
    """In double precision; the networks of RELAX are not zero, as they would be at the start."""

    def make(model: LatentVariableModel, batch: Batch) -> Estimator:
        networks = {"inputs": batch.inputs.shape[-1], "hidden": 4} if issubclass(kind, Relax) else {}
        estimator = kind(model.latent, **networks, **options).double()
        if isinstance(estimator, Relax):
            estimator.networks = randomize(estimator.networks, seed=5, scale=0.5)
        return estimator

    return make


class NoiseOfAnotherState(Rebar):
    """The second noise is drawn given the complement of the state. (Drawn given no state it would be unbiased.)"""

    def _perturbed_again(self, distribution: Discrete, state: Tensor, uniforms: Tensor) -> Tensor:
        return conditionally_perturbed(distribution, 1 - state, uniforms)


class StoppedNoise(Rebar):
    """The gradient does not flow through the second noise."""

    def _perturbed_again(self, distribution: Discrete, state: Tensor, uniforms: Tensor) -> Tensor:
        return conditionally_perturbed(distribution, state, uniforms).detach()


class FlatRebar(Estimator):
    """REBAR that takes the layers as one vector: deeper logits of discrete ancestors, all layers relaxed at once."""

    def __init__(self, latent: object) -> None:
        super().__init__()

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        posterior = relaxable_posterior(model, batch, "REBAR")
        noise, other = uniforms_for(posterior, 1), uniforms_for(posterior, 1)
        h, first, second = noise[..., :0], noise[..., :0], noise[..., :0]
        for number, where in enumerate(posterior.latent.slices):
            distribution = discrete(posterior.conditional(number, h))
            z = perturbed(distribution, noise[..., where])
            state = hard(distribution.layer, z)
            again = conditionally_perturbed(distribution, state, other[..., where])
            h = torch.cat([h, state], -1)
            first = torch.cat([first, relaxed(distribution.layer, z, 0.5)], -1)
            second = torch.cat([second, relaxed(distribution.layer, again, 0.5)], -1)
        joint, inference = log_joint(model, batch, h), posterior.log_prob(h)
        theta = [parameter for name, parameter in model.named_parameters() if not name.startswith("inference")]
        for parameter in theta:
            parameter.requires_grad_(False)
        control = [log_joint(model, batch, y) - posterior.log_prob(y) for y in (first, second)]
        for parameter in theta:
            parameter.requires_grad_(True)
        signal = (joint - inference).detach()
        gain = (signal - control[1].detach()) * inference + control[0] - control[1] + joint
        return Estimate(-gain.mean(), signal.mean(), signal, {})


class StoppedRelaxNoise(Relax):
    """Likewise."""

    def _perturbed_again(self, distribution: Discrete, state: Tensor, uniforms: Tensor) -> Tensor:
        return conditionally_perturbed(distribution, state, uniforms).detach()


class NotPutBack(MuProp):
    """The mean of the control variate is forgotten."""

    def _put_back(self, slope: Tensor, mean: Tensor) -> Tensor:
        return torch.zeros_like(mean[..., 0])


CASES = [
    Case(
        "REBAR",
        made(Rebar, temperature=0.8, scale=0.9),
        {
            "all layers relaxed at once": ("two-layers", made(FlatRebar)),
            "noise given another state": ("one-layer", made(NoiseOfAnotherState, temperature=0.8, scale=0.9)),
            "no gradient through the second noise": ("categorical", made(StoppedNoise, temperature=0.8, scale=0.9)),
        },
        RELAXABLE,
        copies=4_000,
    ),
    Case("REBAR, two", made(Rebar, particles=2, temperature=0.8), {}, ("mixed layers",), copies=1_000),
    Case(
        "RELAX",
        made(Relax, temperature=0.8, scale=0.9),
        {"no gradient through the second noise": ("one-layer", made(StoppedRelaxNoise, temperature=0.8, scale=0.9))},
        RELAXABLE,
        copies=4_000,
    ),
    Case("MuProp", of(MuProp), {"its mean not put back": ("one-layer", of(NotPutBack))}, EVERY_RELAXABLE, draws=1),
    Case("MuProp, two", of(MuProp, particles=2), {}, ("one-layer",), draws=2),
]
