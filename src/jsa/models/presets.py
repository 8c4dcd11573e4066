"""The configuration of a model, and the paper's models as presets. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from jsa.errors import UsageError, unknown_name
from jsa.io.arguments import storable
from jsa.ranges import Ranged, real, whole


@storable
@dataclass(frozen=True)
class Style(Ranged):
    """The activation and initialization of a model's deterministic networks."""

    activation: Literal["leaky-relu", "relu", "tanh", "elu", "gelu"] = "leaky-relu"
    """Activation function of the deterministic layers."""
    negative_slope: Annotated[float, real(least=0, most=1)] = 0.01
    """Slope of leaky-relu below zero."""
    initialization: Literal["torch", "xavier"] = "torch"
    """Initial weights: torch's default, or Glorot's uniform distribution."""
    initial_bias: Annotated[float | None, real(least=-1000, most=1000)] = None
    """Initial value of every bias; None for torch's default."""


@storable
@dataclass(frozen=True)
class NetworkConfig(Style):
    """Sizes, activation, initialization and prior of the networks. The defaults depend on --model."""

    latents: Annotated[tuple[int, ...], whole(1)] = (200,)
    """Latent variables per stochastic layer, starting with the layer next to the data."""
    latent_kind: Literal["bernoulli", "categorical", "gaussian"] = "bernoulli"
    """Distribution of the latent variables."""
    latent_classes: Annotated[int, whole(2, 256)] = 2
    """Classes per categorical latent variable; 2 for the other kinds."""
    hidden: Annotated[tuple[int, ...], whole(1)] = ()
    """Widths of the hidden layers of the inference network; the generative network has them in reverse."""
    prior: Literal["fixed", "learned"] = "fixed"
    """Fixed prior (fair coins, uniform classes or standard normals, as in the paper) or a learned one."""
    conditional: bool = False
    """Predict the second half of the columns from the first half, with a prior learned given that half."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.latents:
            raise UsageError("latents must name the units of 1 layer or more")
        if self.conditional and len(self.latents) != 1:
            raise UsageError("a conditional model has one stochastic layer")
        if self.conditional and self.prior == "fixed":
            raise UsageError("the prior of a conditional model is learned from the context: add --prior learned")


def linear() -> NetworkConfig:
    """Configure 784 ~ 200: one stochastic layer and no hidden ones."""
    return NetworkConfig(initialization="xavier", initial_bias=-1.0)


def nonlinear() -> NetworkConfig:
    """Configure 784 - 200 - 200 ~ 200: one stochastic layer and two hidden ones in each direction."""
    return NetworkConfig(hidden=(200, 200))


def two_layers() -> NetworkConfig:
    """Configure 784 ~ 200 ~ 200: two stochastic layers."""
    return NetworkConfig(latents=(200, 200), initialization="xavier", initial_bias=-1.0)


def categorical() -> NetworkConfig:
    """Configure 784 - 512 - 256 ~ 20 variables of 10 classes."""
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
    """Configure the lower half of a digit given the upper: 50 latents, two layers of 200 tanh units, learned p(h|c)."""
    return NetworkConfig(latents=(50,), hidden=(200, 200), activation="tanh", prior="learned", conditional=True)


MODELS: dict[str, Callable[[], NetworkConfig]] = {
    "linear": linear,
    "nonlinear": nonlinear,
    "two-layers": two_layers,
    "categorical": categorical,
    "structured": structured,
}


def preset(name: str) -> NetworkConfig:
    """Return the configuration of a model by its name.

    >>> preset("nonlinear").hidden
    (200, 200)
    """
    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    return MODELS[name]()
