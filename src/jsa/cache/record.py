"""A memory-mapped row: its packed state, the time of its last move, and a checksum of both."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

Records = npt.NDArray[np.void]

_ROWS_AT_ONCE = 1 << 16


def record_type(state_bytes: int) -> np.dtype[np.void]:
    """The type of a row, without gaps, and the same on every machine."""
    return np.dtype([("state", np.uint8, (state_bytes,)), ("moved_at", "<i8"), ("checksum", "<u4")])


def make_records(states: npt.NDArray[np.uint8], times: npt.NDArray[np.int64]) -> Records:
    """The rows of these states and times."""
    records = np.zeros(len(states), record_type(states.shape[1]))
    records["state"] = states
    records["moved_at"] = times
    records["checksum"] = checksums(records)
    return records


def checksums(records: Records) -> npt.NDArray[np.uint32]:
    """The checksum that each row ought to have.

    It is a sum of the bytes with odd weights modulo 2**32. So a single flipped bit always changes it, and a row of
    zeros has checksum zero: the holes of a sparse file are whole rows.
    """
    length = records.dtype.itemsize - np.dtype(np.uint32).itemsize
    weights = _weights(length)
    found = np.empty(len(records), np.uint32)
    for start in range(0, len(records), _ROWS_AT_ONCE):
        some = np.ascontiguousarray(records[start : start + _ROWS_AT_ONCE])
        content = some.view(np.uint8).reshape(len(some), -1)[:, :length]
        found[start : start + len(some)] = content.astype(np.uint32) @ weights
    return found


@functools.cache
def _weights(count: int) -> npt.NDArray[np.uint32]:
    """Fixed odd numbers without a pattern: the mixing steps of MurmurHash3 on 1, 2, 3, ..."""
    mixed = np.arange(1, count + 1, dtype=np.uint32)
    for factor, shift in ((0x85EBCA6B, 13), (0xC2B2AE35, 16)):
        mixed ^= mixed >> np.uint32(shift)
        mixed *= np.uint32(factor)
    mixed ^= mixed >> np.uint32(16)
    return mixed | np.uint32(1)
