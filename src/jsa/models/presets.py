"""The sizes and choices of a model, and the paper's models as presets. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from jsa.errors import UsageError, check_range, unknown_name


@dataclass(frozen=True)
class Style:
    """How the deterministic networks of a model are made."""

    activation: Literal["leaky-relu", "relu", "tanh", "elu", "gelu"] = "leaky-relu"
    """The function between deterministic layers."""
    negative_slope: float = 0.01
    """Slope of leaky-relu below zero."""
    initialization: Literal["torch", "xavier"] = "torch"
    """Initial weights: torch's own, or Glorot's uniform ones."""
    initial_bias: float | None = None
    """Value of every bias at the start; None for torch's own."""

    def __post_init__(self) -> None:
        check_range(negative_slope=self.negative_slope, initial_bias=self.initial_bias)


@dataclass(frozen=True)
class NetworkConfig(Style):
    """Sizes, activations, initialization and prior of a model; the defaults are those of the model chosen."""

    latents: tuple[int, ...] = (200,)
    """Variables of each stochastic layer, the one next to the data first."""
    latent_kind: Literal["bernoulli", "categorical", "gaussian"] = "bernoulli"
    """What the latent variables are."""
    latent_classes: int = 2
    """Classes of each categorical latent variable; 2 for the other kinds."""
    hidden: tuple[int, ...] = ()
    """Deterministic hidden layers of the inference network; the generative network has them in reverse."""
    prior: Literal["fixed", "learned"] = "fixed"
    """Fair coins, uniform classes or standard normals as in the published results, or learned."""
    conditional: bool = False
    """Predict the second half of the columns from the first, with a learned prior given that half."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.latents or min(self.latents) < 1 or any(width < 1 for width in self.hidden):
            raise UsageError("every stochastic and hidden layer needs at least 1 unit")
        if self.conditional and len(self.latents) != 1:
            raise UsageError("a conditional model has one stochastic layer")
        if self.conditional and self.prior == "fixed":
            raise UsageError("the prior of a conditional model is learned from the context: add --prior learned")


def linear() -> NetworkConfig:
    """784 ~ 200, one stochastic layer and no hidden ones."""
    return NetworkConfig(initialization="xavier", initial_bias=-1.0)


def nonlinear() -> NetworkConfig:
    """784 - 200 - 200 ~ 200, one stochastic layer and two hidden ones each way."""
    return NetworkConfig(hidden=(200, 200))


def two_layers() -> NetworkConfig:
    """784 ~ 200 ~ 200, two stochastic layers."""
    return NetworkConfig(latents=(200, 200), initialization="xavier", initial_bias=-1.0)


def categorical() -> NetworkConfig:
    """784 - 512 - 256 ~ 20 variables of 10 classes."""
    return NetworkConfig(
        latents=(20,),
        latent_kind="categorical",
        latent_classes=10,
        hidden=(512, 256),
        negative_slope=0.2,
        initialization="xavier",
        initial_bias=0.0,
    )


def structured() -> NetworkConfig:
    """Bottom half of a digit from its top half: 50 latents, two hidden layers of 200 tanh units, learned p(h|c)."""
    return NetworkConfig(latents=(50,), hidden=(200, 200), activation="tanh", prior="learned", conditional=True)


MODELS: dict[str, Callable[[], NetworkConfig]] = {
    "linear": linear,
    "nonlinear": nonlinear,
    "two-layers": two_layers,
    "categorical": categorical,
    "structured": structured,
}


def preset(name: str) -> NetworkConfig:
    """The configuration of a model by its name.

    >>> preset("nonlinear").hidden
    (200, 200)
    """
    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    return MODELS[name]()
