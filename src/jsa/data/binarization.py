"""Binarization of gray images: at a threshold, drawn once, or redrawn every epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from jsa.batch import Batch
from jsa.data.dataset import IndexedDataset, check_bytes
from jsa.data.schema import Schema
from jsa.data.streams import raw_stream

_BLOCK_WORDS = 1 << 14  # words drawn at a time: they stay in the processor's cache


def threshold(gray: UInt8[np.ndarray, "*shape"]) -> UInt8[np.ndarray, "*shape"]:
    """Return 1 where the intensity gray / 255 is above a half, which is where gray is at least 128."""
    return (gray > 127).astype(np.uint8)


def bernoulli(gray: UInt8[np.ndarray, "*shape"], purpose: str, *numbers: int) -> UInt8[np.ndarray, "*shape"]:
    """Draw each pixel as 1 with probability exactly gray / 255, from the stream of this name.

    The bytes of the stream other than 255 are uniform on 0 ... 254, so they are below `gray` with probability
    gray / 255. There is no rounding, and the result is the same on every machine.

    >>> bernoulli(np.array([[0, 255, 0]], dtype=np.uint8), "example")
    array([[0, 1, 0]], dtype=uint8)
    """
    flat = gray.reshape(-1)
    drawn = np.empty(flat.shape, dtype=np.uint8)
    stream = raw_stream(purpose, *numbers)
    filled = 0
    while filled < flat.size:
        uniform = stream.random_raw(_BLOCK_WORDS).astype("<u8", copy=False).view(np.uint8)
        uniform = uniform[uniform != 255][: flat.size - filled]
        here = slice(filled, filled + uniform.size)
        np.less(uniform, flat[here], out=drawn[here].view(np.bool_))
        filled += uniform.size
    return drawn.reshape(gray.shape)


@final
class DynamicBinarization:
    """Gray images whose intensities are drawn anew as Bernoulli variables in each epoch.

    The seed and the epoch determine the draw, so a resumed run sees the same rows as an uninterrupted one. Before the
    first `start_epoch` the rows are those of epoch 0.

    Args:
        gray: The intensities, 0 ... 255, one image per row.
        schema: The columns of a row; by default binary columns without names.
        seed: The seed of the draws.
        labels: The class of each row, if known.

    Example:
        >>> gray = torch.full((4, 100), 128, dtype=torch.uint8)
        >>> images = DynamicBinarization(gray, seed=1)
        >>> first = images.batch(torch.arange(4)).x
        >>> images.start_epoch(1)
        >>> bool((images.batch(torch.arange(4)).x == first).all())
        False
    """

    rows_change = True
    missing = None

    def __init__(
        self,
        gray: UInt8[Tensor, "rows columns"],
        schema: Schema | None = None,
        *,
        seed: int,
        labels: UInt8[Tensor, " rows"] | None = None,
    ) -> None:
        check_bytes("gray", gray)
        self.schema = schema or Schema.of(gray.shape[1])
        self.gray = gray
        self.seed = seed
        self.labels = labels
        self._draw(0)

    def __len__(self) -> int:
        return len(self.gray)

    def batch(self, index: Int64[Tensor, " batch"], device: torch.device | str | None = None) -> Batch:
        """Return this epoch's rows with these numbers, on `device` if given."""
        return self._drawn.batch(index, device)

    def start_epoch(self, epoch: int) -> None:
        """Draw the rows of this epoch, unless they are already the current ones."""
        if epoch != self.epoch:
            self._draw(epoch)

    def stored(self, rows: slice) -> Sequence[Tensor]:
        """Return the intensities of these rows, and their draws, which depend on the seed."""
        return [self.gray[rows], *self._drawn.stored(rows)]

    def _draw(self, epoch: int) -> None:
        values = torch.from_numpy(bernoulli(self.gray.numpy(), "dynamic binarisation", self.seed, epoch))
        self._drawn = IndexedDataset(values, self.schema)
        self.epoch = epoch
