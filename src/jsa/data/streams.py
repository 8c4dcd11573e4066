"""Random numbers that are the same on every machine and forever.

numpy guarantees only that the raw stream of a bit generator never changes: `Generator.random` or `permutation` may
change between versions. Data that must be reproducible is therefore made here from raw words with integer arithmetic.
A stream is named by its purpose and some numbers, and different names have different streams.
"""

from __future__ import annotations

import hashlib

import numpy as np
from jaxtyping import Int64, UInt64


def stream_digest(purpose: str, *numbers: int) -> bytes:
    """Return the 32 bytes that identify a stream. Hashing separates (seed 0, epoch 1) from (seed 1, epoch 0)."""
    return hashlib.sha256(":".join([purpose, *map(str, numbers)]).encode()).digest()


def raw_stream(purpose: str, *numbers: int) -> np.random.Philox:
    """Return the bit generator of a stream, whose `random_raw` returns its words.

    >>> raw_stream("example", 1).random_raw() == raw_stream("example", 1).random_raw()
    True
    """
    key = np.frombuffer(stream_digest(purpose, *numbers)[:16], dtype="<u8").astype(np.uint64)
    return np.random.Philox(key=key)


def permutation(count: int, purpose: str, *numbers: int) -> Int64[np.ndarray, " count"]:
    """Return a random permutation of 0 ... count - 1: the sorting order of the stream's first words.

    >>> sorted(permutation(4, "example", 1).tolist())
    [0, 1, 2, 3]
    """
    words: UInt64[np.ndarray, " count"] = raw_stream(purpose, *numbers).random_raw(count)
    return np.argsort(words, kind="stable").astype(np.int64)
