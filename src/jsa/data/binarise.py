"""From gray pictures to binary ones."""

from __future__ import annotations

import numpy as np
from jaxtyping import UInt8

from jsa.data.streams import raw_stream

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
