"""Centered inputs: what a network sees varies about zero, which makes it learn faster; it can express the same."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from jsa.errors import UsageError
from jsa.io.arguments import storable
from jsa.latent import Layer


@storable
@dataclass(init=False, eq=False, repr=False)
class Center:
    """The means of the training rows, about which a model centers what its networks see.

    ``jsa.column_means`` computes them. A model keeps them in buffers, among its weights, so a file does not repeat them
    among the constructor arguments: the model is made with ``Center()``, and its weights bring the means.

    Args:
        x: The mean of x as it is encoded, NaN for a column without values; None leaves the means to the weights that
            are loaded later.
        context: The mean of the context, for conditional models.
    """

    # No field: what is not one is not written to files.

    def __init__(self, x: Float[Tensor, " *observed"] | None = None, context: Tensor | None = None) -> None:
        self.x = x
        self.context = context


class Centered(nn.Module):
    """A module that sees its input minus a mean, with 0 for missing values (NaN): for networks of your own.

    The mean is a buffer, so it is saved with the weights: a constructor that is called before they are loaded can give
    zeros of the same shape.

    Args:
        module: The module.
        mean: The mean of one row, such as ``jsa.column_means(rows).x``; a column whose mean is NaN is not moved.

    Example:
        >>> encoder = Centered(nn.Identity(), torch.tensor([0.5, 0.1]))
        >>> encoder(torch.tensor([[1.0, 0.1], [0.0, torch.nan]]))
        tensor([[ 0.5000,  0.0000],
                [-0.5000,  0.0000]])
    """

    mean: Tensor

    def __init__(self, module: nn.Module, mean: Float[Tensor, " *row"]) -> None:
        super().__init__()
        if bool(mean.isinf().any()):
            raise UsageError("the mean of a Centered module is not finite: leave infinite values out of it")
        self.module = module
        self.register_buffer("mean", mean.nan_to_num(0.0))

    def forward(self, x: Float[Tensor, "*batch"]) -> Tensor:
        """Return what the module returns for the centered input."""
        if x.shape[x.ndim - self.mean.ndim :] != self.mean.shape:
            raise UsageError(
                f"a Centered module with a mean of shape {tuple(self.mean.shape)} got an input of shape "
                f"{tuple(x.shape)}: its rows must have the shape of the mean"
            )
        centered = x - self.mean
        result: Tensor = self.module(centered.masked_fill(centered.isnan(), 0))
        return result


def uniform_moments(layer: Layer) -> tuple[float, float]:
    """Return mean and standard deviation of each entry of a state under the fixed prior.

    >>> uniform_moments(Layer("bernoulli", 3)), uniform_moments(Layer("categorical", 1, classes=5))
    ((0.5, 0.5), (0.2, 0.4))
    """
    if layer.kind == "gaussian":
        return 0.0, 1.0
    mean = 1 / layer.classes
    return mean, (mean * (1 - mean)) ** 0.5


def mean_of_x(center: Center, layer: Layer) -> Float[Tensor, " width"]:
    """Return the mean of x; for a column without values, and before weights are loaded, that of the fixed prior."""
    neutral = torch.full((layer.width,), uniform_moments(layer)[0])
    if center.x is None:
        return neutral
    mean = _checked(center.x, layer.width, "x").to(neutral.dtype)
    if layer.kind != "gaussian" and bool(((mean < 0) | (mean > 1)).any()):
        raise UsageError(
            f"the center of x has values outside 0 to 1, which {layer} cannot have as means: give the means of x as it "
            "is encoded, from jsa.column_means"
        )
    return mean.where(~mean.isnan(), neutral)


def mean_of_context(center: Center, width: int) -> Float[Tensor, " width"]:
    """Return the mean of the context, zero before weights are loaded."""
    if center.context is None:
        if center.x is not None:
            raise UsageError("the center has no mean of the context: give Center(x, context), from jsa.column_means")
        return torch.zeros(width)
    return _checked(center.context, width, "the context").to(torch.get_default_dtype()).nan_to_num(0.0)


def _checked(mean: Tensor, width: int, what: str) -> Tensor:
    if mean.shape != (width,):
        raise UsageError(
            f"the center of {what} has shape {tuple(mean.shape)}, but a row has {width} columns: give a mean for each"
        )
    if bool(mean.isinf().any()):
        raise UsageError(f"the center of {what} is not finite: leave infinite values out of it")
    return mean
