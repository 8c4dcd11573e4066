"""Rows beside what a model makes of their codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from jsa.distributions import Factorized
from jsa.errors import UsageError, check_at_least
from jsa.evaluation.codes import drawn_code
from jsa.evaluation.generative import generative, in_shape_of, mean_of, observation
from jsa.evaluation.likelihood import device_of, evaluating
from jsa.evaluation.rows import Progress, Rows, as_rows, in_chunks
from jsa.evaluation.shown import RowResult, display, first_of
from jsa.io.pictures import SCALE, Pixels, between_black_and_white, pairs, png
from jsa.model import LatentVariableModel
from jsa.model_calls import posterior_of
from jsa.torch_contexts import seeded

ROWS_AT_ONCE = 1000
SHOWN = 50


@dataclass(frozen=True, repr=False)
class Reconstructions(RowResult):
    """Rows with their reconstructions. In a notebook they are shown as pictures, if they are images.

    Attributes:
        x: The rows.
        means: The mean of p(x | h) for a draw h from q(h | x) of each row.
    """

    x: Tensor
    means: Tensor

    def __post_init__(self) -> None:
        self._both(1)

    def png(self, scale: int = SCALE) -> bytes:
        """Return a PNG picture, in which each line of originals is above the line of their reconstructions.

        Args:
            scale: The width of a pixel of an image in pixels of the picture.
        """
        check_at_least(1, scale=scale)
        both = self._both(len(self.x))
        if both is None:
            raise UsageError(
                f"rows of shape {tuple(self.x.shape[1:])} with reconstructions of shape {tuple(self.means.shape[1:])} "
                "are not images: give an image_shape"
            )
        return png(pairs(*both), scale)

    def _both(self, count: int) -> list[Pixels] | None:
        """Return the first rows and their reconstructions as images in the same shades; None if they are not images."""
        images = [self.images(part[:count]) for part in (self.x, self.means)]
        known = [one for one in images if one is not None]
        if len(known) < 2 or known[0].shape != known[1].shape:
            return None
        return list(between_black_and_white(np.stack(known)))

    def _repr_html_(self) -> str | None:
        if (both := self._both(SHOWN)) is None:
            return None
        shown = first_of(len(self.x), SHOWN, "rows")
        return display(pairs(*both), f"{shown}, each line above the line of their reconstructions")


def reconstruct(
    model: LatentVariableModel,
    rows: Rows | Tensor,
    seed: int = 0,
    *,
    image_shape: tuple[int, int] | None = None,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> Reconstructions:
    """Draw a code from q(h | x) for each row, and return the mean of p(x | h) beside the row.

    The model needs the methods ``observation`` and ``sample_latent`` (``jsa.Generative``). It is called in evaluation
    mode with states of shape (rows, width). Means have the shape of x if there are as many numbers.

    Args:
        model: The model.
        rows: The data: a tensor, or an object that returns rows by number.
        seed: The seed of the draws.
        image_shape: Height and width of a row as an image, if the shape of x does not say so.
        device: The device of the evaluation; by default that of the model's parameters.
        progress: Called with the number of rows done.

    Returns:
        The rows and their reconstructions, on the CPU.

    Example:
        >>> from jsa import BeliefNetwork, LatentSpace, Layer
        >>> model = BeliefNetwork(Layer("bernoulli", 6), LatentSpace.of(Layer("bernoulli", 4)))
        >>> reconstruct(model, torch.eye(6)).means.shape
        torch.Size([6, 6])
    """
    generative(model)
    rows, device = as_rows(rows), device or device_of(model)
    x, means, contexts, layer = [], [], [], None
    with evaluating(model), seeded(seed, device):
        for batch in in_chunks(rows, ROWS_AT_ONCE, device, progress):
            h = drawn_code(model, batch, posterior_of(model, batch))
            observed = observation(model, h, batch.context)
            layer = observed.layer if isinstance(observed, Factorized) else None
            x.append(batch.x.cpu())
            means.append(in_shape_of(batch.x, mean_of(model, observed, len(batch))).cpu())
            contexts += [] if batch.context is None else [batch.context.cpu()]
    return Reconstructions(
        torch.cat(x),
        torch.cat(means),
        contexts=torch.cat(contexts) if contexts else None,
        layer=layer,
        image_shape=image_shape,
    )
