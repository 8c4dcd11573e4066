"""Models by configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jsa.errors import UsageError
from jsa.io.arguments import make
from jsa.latent import LatentSpace, Layer
from jsa.model import LatentVariableModel
from jsa.models.belief_network import BeliefNetwork
from jsa.models.centering import Center
from jsa.models.presets import NetworkConfig
from jsa.models.structured_prediction import StructuredPrediction
from jsa.saved_models import class_name


def build_model(
    config: NetworkConfig,
    observed: Layer,
    context: int = 0,
    *,
    indicators: bool = False,
    values: Sequence[int] | None = None,
    center: Center | None = None,
) -> BeliefNetwork | StructuredPrediction:
    """Build the model of a configuration for these observations, which may have missing values.

    Args:
        config: The networks.
        observed: The variables of an observation.
        context: The width of the context, 0 for none.
        indicators: Whether the inference network sees which values are missing.
        values: For each variable of ``observed``, the number of values that it can take, the first ones; None for all.
        center: The means of the training rows, from ``jsa.column_means(rows)``, about which the model is centered from
            its first step on; ``Center()`` if the means are to be loaded with the weights. None centers nothing.

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
        raise UsageError(
            "a conditional model needs data with a context, and other models need data without one: choose another "
            "model, or split off a context with Splits.split_context"
        )
    options: dict[str, Any] = {"style": config, "missing": True, "indicators": indicators}
    options |= {"values": values, "center": center}
    if config.conditional:
        return StructuredPrediction(observed, context, latent, config.hidden, **options)
    return BeliefNetwork(observed, latent, config.hidden, prior=config.prior, **options)


def model_from_record(record: Mapping[str, Any], where: object) -> LatentVariableModel | None:
    """Make a model of this library from its ``constructor_record``, with weights of its own; None for another class.

    Args:
        record: The record.
        where: What it was read from, for errors.

    Example:
        >>> from jsa.models.presets import preset
        >>> from jsa.saved_models import constructor_record
        >>> model = build_model(preset("two-layers"), Layer("bernoulli", 784))
        >>> model_from_record(constructor_record(model), "a file").latent == model.latent
        True
    """
    kinds: tuple[type[LatentVariableModel], ...] = (BeliefNetwork, StructuredPrediction)
    for kind in kinds:
        if record["class"] == class_name(kind):
            return make(kind, record["arguments"], where)
    return None
