"""From a configuration to a model."""

from __future__ import annotations

from jsa.errors import UsageError
from jsa.latent import LatentSpace, Layer
from jsa.models.belief_network import BeliefNetwork
from jsa.models.configuration import NetworkConfig
from jsa.models.structured_prediction import StructuredPrediction


def build_model(
    config: NetworkConfig, observed: Layer, context: int = 0, *, indicators: bool = False
) -> BeliefNetwork | StructuredPrediction:
    """The model of this configuration for observations of this make, of which values may be missing.

    Args:
        config: The networks.
        observed: What an observation is made of.
        context: The width of the context, 0 for none.
        indicators: Whether the inference network sees which values are missing.

    Example:
        >>> from jsa.models.configuration import preset
        >>> model = build_model(preset("two-layers"), Layer("bernoulli", 784))
        >>> model.latent.width
        400
    """
    latent = LatentSpace(
        tuple(Layer(config.latent_kind, variables, config.latent_classes) for variables in config.latents)
    )
    if config.conditional != (context > 0):
        raise UsageError("a conditional model needs data with a context, and the other models need data without one")
    if config.conditional:
        return StructuredPrediction(
            observed, context, latent, config.hidden, style=config, missing=True, indicators=indicators
        )
    return BeliefNetwork(
        observed, latent, config.hidden, prior=config.prior, style=config, missing=True, indicators=indicators
    )
