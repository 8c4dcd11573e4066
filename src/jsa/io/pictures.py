"""Arrays as pictures: rows that are images, side by side, as PNG."""

from __future__ import annotations

import io
import math

import numpy as np
from numpy.typing import NDArray

from jsa.errors import UsageError

COLUMNS = 10
MARGIN = 2
SCALE = 3
GRAY = 0.5
NARROWEST, LARGEST_CELL = 240, 12
"""Pixels: rows of few columns that are not images get larger cells, to be at least this wide."""
WIDEST = 900
"""Pixels: the width of a picture in a notebook."""

Pixels = NDArray[np.float32]


def as_images(rows: Pixels, image_shape: tuple[int, int] | None = None) -> Pixels | None:
    """Return rows as images of shape (rows, height, width) or, with three colors, (rows, height, width, 3).

    Args:
        rows: Vectors of pixels, images of one channel, or images with their one or three channels first.
        image_shape: Height and width of a row; None if its shape says so.

    Returns:
        The images, or None if rows are no images.

    Example:
        >>> as_images(np.zeros((5, 12), dtype=np.float32), (4, 3)).shape
        (5, 4, 3)
        >>> as_images(np.zeros((5, 3, 8, 8), dtype=np.float32)).shape
        (5, 8, 8, 3)
        >>> as_images(np.zeros((5, 12), dtype=np.float32)) is None
        True
    """
    if image_shape is not None:
        if min(image_shape) < 1 or math.prod(rows.shape[1:]) != math.prod(image_shape):
            height, width = image_shape
            raise UsageError(
                f"rows of shape {rows.shape[1:]} are no images of {height} x {width} pixels: give another image-shape"
            )
        return rows.reshape(-1, *image_shape)
    if rows.ndim == 3:
        return rows
    if rows.ndim == 4 and rows.shape[1] in (1, 3):
        return rows[:, 0] if rows.shape[1] == 1 else np.moveaxis(rows, 1, -1)
    return None


def expected_classes(rows: Pixels, classes: int) -> Pixels:
    """Return the expected class of each one-hot variable, from 0 for the first to 1 for the last, as its shade.

    >>> expected_classes(np.array([[1, 0, 0, 0, 0.5, 0.5]], dtype=np.float32), 3).tolist()
    [[0.0, 0.75]]
    """
    shades = np.linspace(0, 1, classes, dtype=np.float32)
    return rows.reshape(len(rows), -1, classes) @ shades


def between_black_and_white(values: Pixels) -> Pixels:
    """Return values from 0 to 1: others are scaled to that range, all alike. A missing value (NaN) is gray.

    >>> between_black_and_white(np.array([-1, 0, 1, np.nan], dtype=np.float32)).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    finite = values[np.isfinite(values)]
    if finite.size and (finite.min() < 0 or finite.max() > 1):
        low, high = finite.min(), finite.max()
        values = (values - low) / max(high - low, np.finfo(np.float32).tiny)
    return np.nan_to_num(values, nan=GRAY).clip(0, 1)


def grid(images: Pixels, columns: int = COLUMNS) -> Pixels:
    """Return one picture of all images, in reading order, on gray."""
    height, width, *colors = images.shape[1:]
    lines = math.ceil(len(images) / columns)
    shape = (lines * (height + MARGIN) - MARGIN, columns * (width + MARGIN) - MARGIN, *colors)
    picture = np.full(shape, GRAY, np.float32)
    for place, image in enumerate(images):
        top, left = (place // columns) * (height + MARGIN), (place % columns) * (width + MARGIN)
        picture[top : top + height, left : left + width] = image
    return picture


def pairs(originals: Pixels, copies: Pixels) -> Pixels:
    """Return one picture of all images, with each line of originals above the line of their copies."""
    # Gray images fill the last line, so that the copies always begin a new one.
    gray = np.full((-len(originals) % COLUMNS, *originals.shape[1:]), GRAY, np.float32)
    both = [np.concatenate([images, gray]).reshape(-1, COLUMNS, *gray.shape[1:]) for images in (originals, copies)]
    return grid(np.stack(both, axis=1).reshape(-1, *gray.shape[1:]))


def png(picture: Pixels, scale: int = SCALE) -> bytes:
    """Return a picture as a PNG file, each of its values a square of so many pixels."""
    from matplotlib import image

    large = picture.repeat(scale, axis=0).repeat(scale, axis=1)
    file = io.BytesIO()
    image.imsave(file, large, vmin=0, vmax=1, cmap="gray", format="png")
    return file.getvalue()


def scale_of_lines(rows: Pixels) -> int:
    """Return the scale for rows that are not images, a line each: those of few columns get larger cells."""
    return min(LARGEST_CELL, NARROWEST // rows.shape[1])


def fitting_scale(picture: Pixels) -> int:
    """Return the scale for a notebook, in which a wide picture gets smaller squares."""
    return max(1, min(SCALE, WIDEST // picture.shape[1]))
