"""Every method at every small model that it takes."""

from __future__ import annotations

import torch

from helpers.small_models import EXAMPLES, Example, bits, network, randomize
from jsa import Batch, Estimator, LatentSpace, LatentVariableModel, Layer
from jsa.estimators import Relax
from jsa.estimators.registry import ESTIMATORS, build_estimator

NAMES = sorted(ESTIMATORS)
CLASSES_ONLY = ("arsm",)
BITS_ONLY = ("arm", "disarm", "arms")
RELAXED = ("concrete", "gumbel-softmax", "st-gumbel-softmax", "rebar", "relax", "muprop")


def mixed_layers() -> Example:
    """A categorical variable above two bits."""
    latent = LatentSpace.of(Layer("bernoulli", 2), Layer("categorical", 1, classes=3))
    return Example(randomize(network(latent), 53), bits(rows=3, width=4))


def two_categorical_layers(seed: int = 5) -> Example:
    """A variable of three classes above two variables of three classes."""
    latent = LatentSpace.of(Layer("categorical", 2, classes=3), Layer("categorical", 1, classes=3))
    x = torch.tensor([[0, 1, 1, 0], [1, 1, 0, 1]], dtype=torch.float64)
    return Example(randomize(network(latent), seed), Batch(x, torch.arange(2)))


SMALL_MODELS = {
    **{name: EXAMPLES[name] for name in ("one-layer", "two-layers", "categorical", "conditional", "torch-posterior")},
    "mixed layers": mixed_layers,
    "two categorical layers": two_categorical_layers,
}


def models_of(name: str) -> list[str]:
    """Which small models a method takes."""
    if name in CLASSES_ONLY:
        return ["categorical", "two categorical layers"]
    if name in BITS_ONLY:
        return ["one-layer", "two-layers", "conditional"]
    return [model for model in SMALL_MODELS if model != "torch-posterior" or name not in RELAXED]


Options = dict[str, int]
PAIRS: list[tuple[str, str, Options]] = [
    *((name, model, {}) for name in NAMES for model in models_of(name)),
    # With more particles these have another formula.
    *((name, model, {"particles": 4}) for name in ("arm", "arms") for model in models_of(name)),
]


def example_of(name: str) -> Example:
    """A small model that this method can learn."""
    return SMALL_MODELS[models_of(name)[0]]()


def estimator_of(name: str, model: LatentVariableModel, batch: Batch, *, seed: int = 0, **options: object) -> Estimator:
    """Build the method for a model and its rows, in their precision, with networks that are not zero."""
    torch.manual_seed(seed)
    inputs, rows = batch.inputs.shape[-1], int(batch.row_numbers.max()) + 1
    estimator = build_estimator(name, model.latent, inputs=inputs, rows=rows, options=options)
    if isinstance(estimator, Relax):
        estimator.networks = randomize(estimator.networks, seed=5, scale=0.5)
    return estimator.to(batch.x.dtype)
