"""The file of memory-mapped rows: sparse, verified by checksums, read through a mapping, written by ordinary writes."""

from __future__ import annotations

import errno
import functools
import mmap
import os
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from jsa.errors import CheckpointError
from jsa.io.fault_injection import crash_point

Records = npt.NDArray[np.void]

_ROWS_SUMMED_AT_ONCE = 1 << 16


def record_type(state_bytes: int) -> np.dtype[np.void]:
    """Return the type of a row, without padding and the same on every machine."""
    return np.dtype([("state", np.uint8, (state_bytes,)), ("moved_at", "<i8"), ("checksum", "<u4")])


def make_records(states: npt.NDArray[np.uint8], times: npt.NDArray[np.int64]) -> Records:
    """Return the rows of these states and times."""
    records = np.zeros(len(states), record_type(states.shape[1]))
    records["state"] = states
    records["moved_at"] = times
    records["checksum"] = checksums(records)
    return records


def checksums(records: Records) -> npt.NDArray[np.uint32]:
    """Return the checksum that each row should have.

    It is the sum of the bytes with odd weights modulo 2**32. So a single flipped bit always changes it, and a row of
    zeros has checksum zero: the holes of a sparse file are intact rows.
    """
    length = records.dtype.itemsize - np.dtype(np.uint32).itemsize
    weights = _weights(length)
    found = np.empty(len(records), np.uint32)
    for start in range(0, len(records), _ROWS_SUMMED_AT_ONCE):
        some = np.ascontiguousarray(records[start : start + _ROWS_SUMMED_AT_ONCE])
        content = some.view(np.uint8).reshape(len(some), -1)[:, :length]
        found[start : start + len(some)] = content.astype(np.uint32) @ weights
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


RowNumbers = npt.NDArray[np.int64]

_ROWS_READ_AT_ONCE = 1 << 18


class RecordFile:
    """Rows of a fixed type in one file, each verified by its checksum when it is read.

    Reads go through a mapping, so that a row costs the same however many there are. Writes do not: a write to a mapped
    hole on a full disk would kill the process, an ordinary write raises an error.
    """

    def __init__(self, path: Path, kind: np.dtype[np.void], rows: int) -> None:
        self.path = path
        self._kind = kind
        self._rows = rows
        size = rows * kind.itemsize
        if not path.is_file() or path.stat().st_size != size:
            found = path.stat().st_size if path.is_file() else 0
            raise CheckpointError(
                f"{path} is missing or damaged (it has {found} of {size} bytes): "
                "put back a copy of its folder, or delete the folder and start the chains anew"
            )
        self._descriptor = os.open(path, os.O_RDWR)
        weakref.finalize(self, os.close, self._descriptor)
        self._mapping = mmap.mmap(self._descriptor, size, access=mmap.ACCESS_READ)
        # Rows are read in any order: reading ahead would waste time and memory.
        self._mapping.madvise(mmap.MADV_RANDOM)
        self._records: Records = np.frombuffer(self._mapping, kind)

    @classmethod
    def create(cls, path: Path, kind: np.dtype[np.void], rows: int) -> None:
        """Create a file of zeros, which takes no space on the disk until rows are written."""
        with path.open("wb") as file:
            file.truncate(rows * kind.itemsize)
            os.fsync(file.fileno())

    def read(self, rows: RowNumbers) -> Records:
        """Return copies of these rows."""
        records = self._records[rows]
        self._verify(rows, records)
        return records

    def write(self, rows: RowNumbers, records: Records) -> None:
        """Write rows; ``flush`` makes them durable."""
        if not len(rows):
            return
        content = memoryview(records.tobytes())
        size = self._kind.itemsize
        # Adjacent rows are written together.
        starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
        for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
            part, place = content[start * size : stop * size], int(rows[start]) * size
            while part:
                written = os.pwrite(self._descriptor, part, place)
                part, place = part[written:], place + written
            crash_point("journal-applying")

    def flush(self) -> None:
        """Wait until what was written is on the disk, and release the pages that were read."""
        os.fsync(self._descriptor)
        self._mapping.madvise(mmap.MADV_DONTNEED)

    def stored(self) -> Iterator[tuple[RowNumbers, Records]]:
        """Yield the rows that have a time, many at once; holes of the file are skipped."""
        numbers: list[RowNumbers] = []
        content: list[bytes] = []
        waiting = 0
        for first, last in self._filled():
            # Not through the mapping, whose pages would stay in memory.
            content.append(
                os.pread(self._descriptor, (last - first) * self._kind.itemsize, first * self._kind.itemsize)
            )
            numbers.append(np.arange(first, last))
            waiting += last - first
            if waiting >= _ROWS_READ_AT_ONCE:
                yield self._verified(numbers, content)
                numbers, content, waiting = [], [], 0
        if waiting:
            yield self._verified(numbers, content)

    def _filled(self) -> Iterator[tuple[int, int]]:
        """Yield the first row of each part that is not a hole and the row after its last; no part is long."""
        size, done = self._kind.itemsize, 0
        for begin, end in _extents(self._descriptor, self._rows * size):
            first, last = max(begin // size, done), min(-(-end // size), self._rows)
            for start in range(first, last, _ROWS_READ_AT_ONCE):
                yield start, min(start + _ROWS_READ_AT_ONCE, last)
            done = max(done, last)

    def _verified(self, numbers: Sequence[RowNumbers], content: Sequence[bytes]) -> tuple[RowNumbers, Records]:
        rows, records = np.concatenate(numbers), np.frombuffer(b"".join(content), self._kind)
        # A page of the file also holds rows that were never written.
        there = records["moved_at"] != 0
        rows, records = rows[there], records[there]
        self._verify(rows, records)
        return rows, records

    def _verify(self, rows: RowNumbers, records: Records) -> None:
        wrong = np.flatnonzero(checksums(records) != records["checksum"])
        if len(wrong):
            raise CheckpointError(
                f"row {rows[wrong[0]]} of {self.path} is damaged: put back a copy of its folder and of the "
                "checkpoint that belongs to it, or delete the folder and start the chains anew"
            )


def holds_data(path: Path) -> bool:
    """Return whether anything was ever written to a sparse file."""
    with path.open("rb") as file:
        return any(True for _ in _extents(file.fileno(), path.stat().st_size))


def _extents(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a file that are not holes; the whole file if the file system cannot tell."""
    end = 0
    while end < size:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:  # which means that only a hole is left
                yield end, size
            return
        yield begin, end
