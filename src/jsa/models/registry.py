"""From a configuration to a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jsa.errors import UsageError
from jsa.latent import LatentSpace, Layer
from jsa.models.belief_network import BeliefNetwork
from jsa.models.presets import NetworkConfig
from jsa.models.structured_prediction import StructuredPrediction


def build_model(
    config: NetworkConfig,
    observed: Layer,
    context: int = 0,
    *,
    indicators: bool = False,
    values: Sequence[int] | None = None,
) -> BeliefNetwork | StructuredPrediction:
    """The model of this configuration for observations of this make, of which values may be missing.

    Args:
        config: The networks.
        observed: What an observation is made of.
        context: The width of the context, 0 for none.
        indicators: Whether the inference network sees which values are missing.
        values: How many of the values of ``observed`` each of its variables can take, the first ones; None for all.

    Example:
        >>> from jsa.models.presets import preset
        >>> model = build_model(preset("two-layers"), Layer("bernoulli", 784))
        >>> model.latent.width
        400
    """
    latent = LatentSpace(
        tuple(Layer(config.latent_kind, variables, config.latent_classes) for variables in config.latents)
    )
    if config.conditional != (context > 0):
        raise UsageError("a conditional model needs data with a context, and the other models need data without one")
    options: dict[str, Any] = {"style": config, "missing": True, "indicators": indicators, "values": values}
    if config.conditional:
        return StructuredPrediction(observed, context, latent, config.hidden, **options)
    return BeliefNetwork(observed, latent, config.hidden, prior=config.prior, **options)
