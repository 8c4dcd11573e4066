"""What a method and a learner say of themselves, in one line."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
from torch import nn

from helpers.methods import NAMES
from jsa import JSA, BeliefNetwork, Estimator, LatentSpace, Layer, Learner, Stage
from jsa.estimators import NVIL, Reinforce
from jsa.estimators.registry import ESTIMATORS, build_estimator, option_defaults

LATENT = LatentSpace.of(Layer("bernoulli", 200))

# Of each type, a value that is no default.
OTHER = {bool: False, int: 8, float: 0.75, str: "running", type(None): 0.625}


def other(default: object) -> object:
    return next(value for kind, value in OTHER.items() if isinstance(default, kind))


@pytest.mark.parametrize("name", NAMES)
def test_every_method_says_what_it_was_made_with(name: str) -> None:
    options = {option: other(default) for option, default in option_defaults(name).items()}
    estimator = build_estimator(name, LATENT, inputs=17, rows=600, options=options)
    text = repr(estimator)
    assert "\n" not in text
    assert text.startswith(f"{ESTIMATORS[name].__name__}(")
    for option, value in options.items():
        assert f"{option}={value!r}" in text
    taken = inspect.signature(ESTIMATORS[name]).parameters
    for argument, shown in (("latent", "(200 bernoulli variables"), ("rows", "rows=600"), ("inputs", "inputs=17")):
        assert (argument in taken) == (shown in text)
    assert ("stage=FRESH" in text) == (estimator.chains is not None)
    assert "None" not in text
    assert repr(copy.deepcopy(estimator)) == repr(pickle.loads(pickle.dumps(estimator))) == text


def test_what_has_changed_since_is_as_it_is_now() -> None:
    space = LatentSpace.of(Layer("bernoulli", 2), Layer("categorical", 1, classes=3))
    estimator = JSA(space, 10, switch_after=3)
    shown = "2 bernoulli variables + 1 categorical variable of 3 classes, rows=10, particles=2"
    assert repr(estimator) == f"JSA({shown}, stage=FRESH, switch_after=3)"
    estimator.stage, estimator.particles = Stage.PERSISTENT, 5
    assert repr(estimator) == f"JSA({shown[:-1]}5, stage=PERSISTENT, switch_after=3)"


class OwnMethod(JSA):
    def __init__(self, *rest: object, network: nn.Module, label: str = "a\nb", **named: object) -> None:
        super().__init__(*rest, **named)  # type: ignore[arg-type]
        self.network = network


class Plain(Reinforce):
    pass


def test_a_method_of_ones_own_does_so_too() -> None:
    method = OwnMethod(LATENT, 10, network=nn.Linear(2, 2), particles=3)
    assert repr(method) == (
        "OwnMethod(rest=(200 bernoulli variables, 10), network=Linear, label='a\\nb', named=particles=3)"
    )
    assert repr(Plain()) == "Plain(particles=1, baseline='none', decay=0.9)"


def test_a_method_that_was_not_made_says_what_it_can() -> None:
    class Unfinished(Estimator):
        forward = Reinforce.forward

        def __init__(self, rows: int) -> None:
            self.said = repr(self)

    assert Unfinished(4).said == "Unfinished(rows=4)"


def test_a_learner_is_one_line_with_its_size() -> None:
    model = BeliefNetwork(Layer("bernoulli", 784), LATENT)
    learner = Learner(model, NVIL(LATENT, 784, hidden=7))
    count = sum(parameter.numel() for parameter in model.parameters())
    assert repr(learner) == (
        f"Learner(BeliefNetwork(200 bernoulli variables; {count:,} parameters), NVIL(200 bernoulli variables, "
        "inputs=784, particles=1, hidden=7, decay=0.8, normalize=True))"
    )
    assert "Linear(" in repr(learner.model)
    lazy = Learner(model, NVIL(LATENT, 784))
    lazy.model.extra = nn.LazyLinear(3)
    assert f"{count:,}" in repr(lazy)
