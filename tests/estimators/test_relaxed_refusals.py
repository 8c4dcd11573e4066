"""What the relaxed methods refuse, and in which words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from helpers.relaxed_examples import BIASED, made
from helpers.small_models import EXAMPLES, Example
from jsa import Batch, BeliefNetwork, LatentSpace, Layer
from jsa.errors import UsageError
from jsa.estimators import Estimator
from jsa.estimators.concrete import Concrete
from jsa.estimators.muprop import MuProp
from jsa.estimators.rebar import Rebar
from jsa.estimators.relax import Relax


def refuses_what_it_cannot_take(estimator: Estimator) -> None:
    example = EXAMPLES["torch-posterior"]()
    with pytest.raises(UsageError, match=r"'relaxable' is False.*use vimco, rloo or jsa"):
        estimator(example.model, example.batch)
    example.model.relaxable = True
    with pytest.raises(UsageError, match="TorchPosterior does not: use vimco, rloo or jsa"):
        estimator(example.model, example.batch)
    normal = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(Layer("gaussian", 3))).double()
    with pytest.raises(UsageError, match="gaussian one: use vimco, rloo or jsa"):
        estimator(normal, example.batch)


@pytest.mark.parametrize("kind", BIASED.values(), ids=BIASED)
def test_refusals_of_the_biased_methods(kind: Callable[..., Estimator]) -> None:
    with pytest.raises(UsageError, match="at least 1 particle, not 0"):
        kind(particles=0)
    with pytest.raises(UsageError, match="positive number"):
        kind(temperature=0.0)
    refuses_what_it_cannot_take(kind())


@pytest.mark.parametrize("kind", [Rebar, Relax, MuProp])
def test_refusals_of_the_unbiased_methods(kind: type[Estimator]) -> None:
    example = EXAMPLES["one-layer"]()
    estimator = made(kind, example)
    with pytest.raises(UsageError, match="at least 1 particle, not 0"):
        made(kind, example, particles=0)
    refuses_what_it_cannot_take(estimator)
    if kind is not MuProp:
        normal = LatentSpace.of(Layer("gaussian", 2))
        with pytest.raises(UsageError, match="gaussian one: use vimco"):
            made(kind, Example(BeliefNetwork(Layer("bernoulli", 4), normal), example.batch))
        with pytest.raises(UsageError, match=r"scale of .* is a positive number"):
            made(kind, example, scale=-1.0)
        with pytest.raises(UsageError, match=r"temperature of .* is a positive number"):
            made(kind, example, temperature=0.0)


def test_concrete_refuses_a_model_that_does_not_tell_its_prior() -> None:
    class Silent(BeliefNetwork):
        latent_conditionals = None

    network = Silent(Layer("bernoulli", 4), LatentSpace.of(Layer("bernoulli", 3)))
    with pytest.raises(UsageError, match="no method 'latent_conditionals': use vimco"):
        Concrete()(network, Batch(torch.zeros(2, 4), torch.arange(2)))
