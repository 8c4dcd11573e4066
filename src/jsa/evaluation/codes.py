"""Latent codes of rows, with one number per variable."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from jsa.batch import Batch
from jsa.errors import UsageError
from jsa.evaluation.likelihood import device_of, evaluating
from jsa.evaluation.rows import Progress, Rows, as_rows, in_chunks
from jsa.evaluation.shown import ShownByShape
from jsa.latent import LatentSpace, Layer
from jsa.model import LatentVariableModel
from jsa.model_calls import BatchPosterior, posterior_of, refuse_contradictions, refuse_no_model
from jsa.torch_contexts import seeded

ROWS_AT_ONCE = 1000


@dataclass(frozen=True, repr=False)
class Codes(ShownByShape):
    """The latent codes of rows.

    Attributes:
        states: A draw from q(h | x) for each row: bits as 0/1, classes as numbers, Gaussian variables as real numbers.
        means: The probabilities of the bits or classes of the first layer under q(h | x), or its means. None if the
            posterior is one of your own without an attribute ``mean``.
    """

    states: Tensor
    means: Tensor | None

    @property
    def first_means(self) -> Tensor:
        """The means, or a refusal where there are none."""
        if self.means is None:
            raise UsageError(
                "q(h | x) gave draws alone: for means, return a LayeredPosterior from the model's method posterior, or "
                "an object that also has mean, of shape (rows, width)"
            )
        return self.means


def encode(
    model: LatentVariableModel,
    rows: Rows | Tensor,
    seed: int = 0,
    *,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> Codes:
    """Return the latent codes of rows: a draw from q(h | x) and the means of q(h | x).

    The means are those of a ``LayeredPosterior`` or ``TorchPosterior``, or the attribute ``mean``, of shape (rows,
    width), of a posterior of your own. Any other posterior gives draws alone.

    Args:
        model: The model.
        rows: The data: a tensor, or an object that returns rows by number.
        seed: The seed of the draws.
        device: The device of the evaluation; by default that of the model's parameters.
        progress: Called with the number of rows done.

    Returns:
        The codes, on the CPU.

    Example:
        >>> from jsa import BeliefNetwork, LatentSpace, Layer
        >>> model = BeliefNetwork(Layer("bernoulli", 6), LatentSpace.of(Layer("bernoulli", 4)))
        >>> encode(model, torch.eye(6))
        Codes(states: 6 x 4, means: 6 x 4)
    """
    refuse_no_model(model)
    rows, device = as_rows(rows), device or device_of(model)
    states, means = [], []
    with evaluating(model), seeded(seed, device):
        for batch in in_chunks(rows, ROWS_AT_ONCE, device, progress):
            posterior = posterior_of(model, batch)
            states.append(compact(model.latent, drawn_code(model, batch, posterior)).cpu())
            mean = mean_of_first_layer(model, batch, posterior)
            means += [] if mean is None else [mean.cpu()]
    return Codes(torch.cat(states), torch.cat(means) if means else None)


def drawn_code(model: LatentVariableModel, batch: Batch, posterior: BatchPosterior) -> Float[Tensor, "batch width"]:
    """Return a state for each row, drawn from q(h | x), or refuse what is none."""
    h = posterior.sample(())
    expected = len(batch), model.latent.width
    if h.shape != expected or not model.latent.contains(h):
        raise UsageError(
            f"{posterior.name}.sample(()) returned shape {tuple(h.shape)} for states of shape {expected}, or what is "
            "no state of the latent space: jsa.check_model tells more"
        )
    refuse_contradictions(model, batch, h)
    return h


def mean_of_first_layer(
    model: LatentVariableModel, batch: Batch, posterior: BatchPosterior
) -> Float[Tensor, "batch first"] | None:
    """Return the mean of the first layer under q(h | x); None if the posterior does not offer it."""
    if posterior.layers is not None:
        return posterior.layers.first.mean
    mean = getattr(posterior.own, "mean", None)
    if mean is None:
        return None
    expected = len(batch), model.latent.width
    if not isinstance(mean, Tensor) or mean.shape != expected:
        found = f"shape {tuple(mean.shape)}" if isinstance(mean, Tensor) else type(mean).__name__
        raise UsageError(f"{posterior.name}.mean is of {found}: it must be a tensor of shape {expected}, like a state")
    return mean[:, model.latent.slices[0]]


def most_probable(layer: Layer, mean: Tensor) -> Tensor:
    """Return the most probable value of each variable, given its probability of a one or of each class.

    >>> most_probable(Layer("bernoulli", 2), torch.tensor([[0.3, 0.8]]))
    tensor([[0, 1]], dtype=torch.uint8)
    """
    return class_numbers(layer, mean > 0.5 if layer.kind == "bernoulli" else mean)


def class_numbers(layer: Layer, values: Tensor) -> Tensor:
    """Return variables of a layer's kind with one number each.

    >>> class_numbers(Layer("categorical", 2, classes=3), torch.tensor([[0.0, 0.0, 1.0]]))
    tensor([[2]], dtype=torch.uint8)
    """
    variables = values.shape[-1] // (layer.width // layer.variables)
    return compact(LatentSpace.of(replace(layer, variables=variables)), values)


def compact(latent: LatentSpace, h: Tensor) -> Tensor:
    """Return states with one number per variable, as uint8 if all layers are discrete.

    >>> from jsa import Layer
    >>> space = LatentSpace.of(Layer("categorical", 2, classes=3), Layer("bernoulli", 1))
    >>> compact(space, torch.tensor([[0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0]]))
    tensor([[1, 2, 1]], dtype=torch.uint8)
    """
    parts = []
    for layer, where in zip(latent.layers, latent.slices, strict=True):
        part = h[..., where]
        if layer.kind == "categorical":
            part = part.unflatten(-1, (layer.variables, layer.classes)).argmax(-1)
        parts.append(part if layer.kind == "gaussian" else part.to(torch.uint8))
    return torch.cat(parts, dim=-1)
