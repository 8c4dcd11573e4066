"""How results that hold many numbers are shown: by their shapes, and as pictures where rows are images."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from jsa.io.displays import picture
from jsa.io.pictures import Pixels, as_images, expected_classes, fitting_scale, png
from jsa.latent import Layer


class ShownByShape:
    """Base of results whose text says the shapes of their tensors.

    Example:
        >>> @dataclass(repr=False)
        ... class Found(ShownByShape):
        ...     h: Tensor
        ...     exact: bool = True
        >>> Found(torch.zeros(5, 3))
        Found(h: 5 x 3, exact: True)
    """

    def __repr__(self) -> str:
        known = {name: value for name, value in vars(self).items() if value is not None}
        first = sorted(known, key=lambda name: not isinstance(known[name], Tensor))
        parts = (f"{name}: {_shown(known[name])}" for name in first)
        return f"{type(self).__name__}({', '.join(parts)})"


def _shown(value: object) -> str:
    return " x ".join(map(str, value.shape)) if isinstance(value, Tensor) else str(value)


@dataclass(frozen=True, repr=False, kw_only=True)
class RowResult(ShownByShape):
    """Base of results that hold observations, row by row.

    Attributes:
        contexts: The context of each row, for a conditional model.
        layer: The variables of x, if the model's ``observation`` returned a distribution of jsa.
        image_shape: Height and width of a whole row as an image, context and x together; None if the shape of x says
            so, or if rows are not images.
    """

    contexts: Tensor | None = None
    layer: Layer | None = None
    image_shape: tuple[int, int] | None = None

    def whole(self, part: Tensor) -> Tensor:
        """Return whole rows of a part: each after its context, where both are vectors."""
        if self.contexts is None or self.contexts.ndim != 2 or part.ndim != 2:
            return part
        return torch.cat([self.contexts[: len(part)], part], dim=-1)

    def shades(self, part: Tensor) -> Pixels:
        """Return whole rows of a part with one number for each variable."""
        return shades(self.whole(part), self.layer)

    def images(self, part: Tensor) -> Pixels | None:
        """Return whole rows of a part as images; None if they are not images."""
        return as_images(self.shades(part), self.image_shape)


def shades(rows: Tensor, layer: Layer | None) -> Pixels:
    """Return rows with one number for each variable: the expected class of a categorical one, from 0 to 1."""
    values: Pixels = rows.float().numpy()
    return expected_classes(values, layer.classes) if layer is not None and layer.kind == "categorical" else values


def first_of(count: int, shown: int, what: str) -> str:
    """Say how many of some rows are shown.

    >>> first_of(50, 100, "samples"), first_of(2000, 100, "samples")
    ('50 samples', 'the first 100 of 2,000 samples')
    """
    return f"{count:,} {what}" if count <= shown else f"the first {shown} of {count:,} {what}"


def display(pixels: Pixels, text: str) -> str:
    """Return a picture for a notebook, at a size that fits into it."""
    return picture(png(pixels, fitting_scale(pixels)), text)
