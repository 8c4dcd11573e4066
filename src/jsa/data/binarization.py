"""From gray pictures to binary ones."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from jsa.batch import Batch
from jsa.data.dataset import IndexedDataset, check_context_columns
from jsa.data.streams import raw_stream
from jsa.errors import UsageError

_BLOCK_WORDS = 1 << 14  # words drawn at a time: they stay in the processor's cache


def threshold(gray: UInt8[np.ndarray, "*shape"]) -> UInt8[np.ndarray, "*shape"]:
    """One where the intensity gray / 255 is above a half, which is where gray is at least 128."""
    return (gray > 127).astype(np.uint8)


def bernoulli(gray: UInt8[np.ndarray, "*shape"], purpose: str, *numbers: int) -> UInt8[np.ndarray, "*shape"]:
    """One with probability gray / 255 exactly, in each place, by the stream of this name.

    The bytes of the stream that are not 255 are uniform on 0 ... 254, hence below `gray` with probability
    gray / 255. No rounding enters, and the result is the same on every machine.

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
    """Gray pictures, of which each epoch sees another Bernoulli draw of the intensities.

    The draw is determined by the seed and the epoch alone, so that a resumed run sees what the
    uninterrupted one would have seen. Before the first `start_epoch` the rows are those of epoch 0.

    Args:
        gray: The intensities, 0 ... 255, a picture a row.
        seed: The seed of the draws.
        labels: The class of each row, where it is known.
        context_columns: How many of the first columns are the context of the others.

    Example:
        >>> gray = torch.full((4, 100), 128, dtype=torch.uint8)
        >>> pictures = DynamicBinarization(gray, seed=1)
        >>> first = pictures.batch(torch.arange(4)).x
        >>> pictures.start_epoch(1)
        >>> bool((pictures.batch(torch.arange(4)).x == first).all())
        False
    """

    classes = 2
    rows_change = True
    missing = None

    def __init__(
        self,
        gray: UInt8[Tensor, "rows columns"],
        *,
        seed: int,
        labels: UInt8[Tensor, " rows"] | None = None,
        context_columns: int = 0,
    ) -> None:
        if gray.dtype != torch.uint8 or gray.ndim != 2:
            raise UsageError(
                f"gray must be a uint8 tensor of two dimensions, rows and columns; "
                f"it is {gray.dtype} of shape {tuple(gray.shape)}"
            )
        self.gray = gray
        self.seed = seed
        self.labels = labels
        self.context_columns = context_columns
        self.epoch = 0
        self._drawn = self._draw(0)

    @property
    def observed_columns(self) -> int:
        """The number of observed variables of a row."""
        return self._drawn.observed_columns

    @property
    def observed_width(self) -> int:
        """The width of `Batch.x`."""
        return self._drawn.observed_width

    @property
    def context_width(self) -> int:
        """The width of `Batch.context`; 0 without context."""
        return self._drawn.context_width

    def __len__(self) -> int:
        return len(self._drawn)

    def batch(self, index: Int64[Tensor, " batch"], device: torch.device | str | None = None) -> Batch:
        """This epoch's rows of these numbers, on `device` where one is given."""
        return self._drawn.batch(index, device)

    def split_context(self, columns: int) -> DynamicBinarization:
        """The same pictures, with their first `columns` columns as context of the others."""
        check_context_columns(columns, self.observed_columns, self.context_columns)
        return DynamicBinarization(self.gray, seed=self.seed, labels=self.labels, context_columns=columns)

    def start_epoch(self, epoch: int) -> None:
        """Draw the rows of this epoch, unless they are already the ones here."""
        if epoch != self.epoch:
            self._drawn = self._draw(epoch)
            self.epoch = epoch

    def _draw(self, epoch: int) -> IndexedDataset:
        values = torch.from_numpy(bernoulli(self.gray.numpy(), "dynamic binarisation", self.seed, epoch))
        drawn = IndexedDataset(values, labels=self.labels)
        return drawn.split_context(self.context_columns) if self.context_columns else drawn
