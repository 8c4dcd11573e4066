"""The IDX format, in which MNIST and its relatives are published.

A file is two zero bytes, the type of the values (8: unsigned bytes), the number of dimensions, then each
dimension as a big-endian 32-bit number, then the values.
"""

from __future__ import annotations

import math
import struct
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from jsa.errors import DataError

_UNSIGNED_BYTE = 8
_LARGEST_CONTENT = 1 << 28  # bytes; five times MNIST. A .gz that unpacks to more is not what it claims to be
_GZIP = 31  # zlib's code for "expect a gzip header and checksum"


def parse_idx(content: bytes | memoryview, dimensions: int, source: str) -> UInt8[np.ndarray, "..."]:
    """The array that an IDX file holds, as a view of its content.

    Nothing is allocated by what the header says: it must agree with the content that is there.

    Args:
        content: All bytes of the file.
        dimensions: How many dimensions the array must have: 3 for pictures, 1 for labels.
        source: What to call the file in an error.

    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), 1, "labels")
    array([7, 9], dtype=uint8)
    """
    magic = bytes(content[:4])
    if magic != bytes([0, 0, _UNSIGNED_BYTE, dimensions]):
        raise DataError(
            f"{source} is not an IDX file of unsigned bytes in {dimensions} dimension(s), "
            f"for it starts with the bytes '{magic.hex(' ')}': get the file again"
        )
    header = struct.Struct(f">4x{dimensions}I")
    if len(content) < header.size:
        raise DataError(f"{source} ends within its header: get the file again")
    shape = header.unpack_from(content)
    if header.size + math.prod(shape) != len(content):
        raise DataError(
            f"{source} is damaged, for its header announces an array of {' x '.join(map(str, shape))} bytes "
            f"and {len(content) - header.size} follow: get the file again"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=header.size).reshape(shape)


def read_idx_content(path: Path) -> bytes:
    """All bytes of an IDX file, unpacked if its name ends in .gz."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    return _unpack(content, path) if path.suffix == ".gz" else content


def _unpack(packed: bytes, path: Path) -> bytes:
    unpacker = zlib.decompressobj(wbits=_GZIP)
    try:
        content = unpacker.decompress(packed, _LARGEST_CONTENT)
    except zlib.error as error:
        raise DataError(f"{path} is not a whole gzip file ({error}): get the file again") from error
    if unpacker.unconsumed_tail:
        raise DataError(f"{path} unpacks to more than any file of its name holds: get the file again")
    if not unpacker.eof:
        raise DataError(f"{path} ends too early: get the file again")
    return content
