"""The measured models and batches of the paper's three tables, and the methods."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from jsa.data import Conditioned, Dataset, IndexedDataset, load
from jsa.estimators import Estimator
from jsa.estimators.registry import build_estimator
from jsa.latent import Layer
from jsa.models.belief_network import BeliefNetwork
from jsa.models.presets import preset
from jsa.models.registry import build_model
from jsa.models.structured_prediction import StructuredPrediction

Model = BeliefNetwork | StructuredPrediction

ROWS = 5_000
"""Few enough rows that a short warm-up visits each chain several times and ages it as training does."""


@dataclass(frozen=True)
class Setting:
    """A model with the batch size and the number of particles that the paper trains it with."""

    name: str
    model: str
    batch_size: int
    particles: int
    warm_up_steps: int
    """Training steps before the measurement, so that the chains accept as rarely as in training."""


SETTINGS = (
    Setting("linear", "linear", 50, 2, 1500),
    Setting("nonlinear", "nonlinear", 50, 2, 1500),
    Setting("two-layers", "two-layers", 50, 2, 1500),
    Setting("categorical", "categorical", 200, 20, 1200),
    Setting("structured-5", "structured", 100, 5, 600),
    Setting("structured-80", "structured", 100, 80, 600),
)


@dataclass(frozen=True)
class Method:
    """An estimator, and its stage if it has two."""

    name: str
    estimator: str
    stage: int | None = None

    def suits(self, setting: Setting) -> bool:
        """Return whether the method supports the latents and the number of particles."""
        return self.estimator != "arm" or (setting.model != "categorical" and setting.particles % 2 == 0)

    def build(self, particles: int, model: Model, rows: int) -> Estimator:
        """Build the estimator for a model."""
        options: dict[str, object] = {"particles": particles}
        estimator = build_estimator(self.estimator, model.latent, inputs=784, rows=rows, options=options)
        if estimator.chains is not None and self.stage is not None:
            estimator.stage = self.stage
        return estimator


METHODS = (
    Method("JSA, stage I", "jsa", 1),
    Method("JSA, stage II", "jsa", 2),
    Method("RWS", "rws"),
    Method("VIMCO", "vimco"),
    Method("ARM", "arm"),
    Method("ST Gumbel-Softmax", "st-gumbel-softmax"),
)


def digits(setting: Setting, rows: int = ROWS) -> Dataset:
    """Return the first rows of the embedded MNIST, with the upper half as context for a conditional model."""
    data = load("mnist-static").train
    assert isinstance(data, IndexedDataset)
    first = IndexedDataset(data.rows[:rows].clone())
    return Conditioned(first, 392) if preset(setting.model).conditional else first


def make_model(setting: Setting, data: Dataset) -> Model:
    """Build the model of a setting, freshly initialized."""
    torch.manual_seed(0)
    schema = data.schema
    return build_model(preset(setting.model), Layer("bernoulli", schema.observed_columns), schema.context_width)
