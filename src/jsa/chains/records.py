"""A chain as bytes: its state, the time of its last move, and a checksum."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

Records = npt.NDArray[np.void]
RowNumbers = npt.NDArray[np.int64]

_ROWS_SUMMED_AT_ONCE = 1 << 16


def record_type(state_bytes: int) -> np.dtype[np.void]:
    """Return the type of a record, without padding and the same on every machine."""
    return np.dtype([("state", np.uint8, (state_bytes,)), ("moved_at", "<i8"), ("checksum", "<u4")])


def make_records(rows: RowNumbers, states: npt.NDArray[np.uint8], times: npt.NDArray[np.int64]) -> Records:
    """Return the records of rows with these states and times."""
    records = np.zeros(len(states), record_type(states.shape[1]))
    records["state"] = states
    records["moved_at"] = times
    records["checksum"] = checksums(rows, records)
    return records


def checksums(rows: RowNumbers, records: Records) -> npt.NDArray[np.uint32]:
    """Return the checksum that the record of each row should have.

    It is the sum of the bytes of record and row number with odd weights modulo 2**32. So a single flipped bit always
    changes it, and the record of one row is not taken for that of another.
    """
    length = records.dtype.itemsize - np.dtype(np.uint32).itemsize
    weights = _weights(length + np.dtype(np.int64).itemsize)
    found = np.empty(len(records), np.uint32)
    for start in range(0, len(records), _ROWS_SUMMED_AT_ONCE):
        part = slice(start, start + _ROWS_SUMMED_AT_ONCE)
        content, numbers = (
            np.ascontiguousarray(some[part]).view(np.uint8).reshape(len(some[part]), some.dtype.itemsize)
            for some in (records, rows.astype("<i8"))
        )
        found[part] = content[:, :length].astype(np.uint32) @ weights[:length]
        found[part] += numbers.astype(np.uint32) @ weights[length:]
    return found


@functools.cache
def _weights(count: int) -> npt.NDArray[np.uint32]:
    """Return fixed odd numbers without a pattern: the mixing steps of MurmurHash3 on 1, 2, 3, ..."""
    mixed = np.arange(1, count + 1, dtype=np.uint32)
    for factor, shift in ((0x85EBCA6B, 13), (0xC2B2AE35, 16)):
        mixed ^= mixed >> np.uint32(shift)
        mixed *= np.uint32(factor)
    mixed ^= mixed >> np.uint32(16)
    return mixed | np.uint32(1)
