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

from jsa.data.downloads import PublishedFile, read_copy
from jsa.errors import DataError

_UNSIGNED_BYTE = 8
_GZIP = 31  # zlib's code for "expect a gzip header and checksum"
_GZIP_OVERHEAD = 1 << 20  # bytes that packing may add to what cannot be packed, amply


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


def read_idx_copy(path: Path, file: PublishedFile, remedy: str) -> bytes:
    """All bytes of a copy of a published IDX file, unpacked if its name ends in .gz.

    Neither the copy nor what it unpacks to can take more memory than the published file.

    Args:
        path: The copy.
        file: What was published.
        remedy: What the user can do about a wrong copy, to end the sentence of an error.
    """
    if path.suffix != ".gz":
        return read_copy(path, file, remedy)
    try:
        with path.open("rb") as stream:
            packed = stream.read(file.size + _GZIP_OVERHEAD)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    unpacker = zlib.decompressobj(wbits=_GZIP)
    try:
        content = unpacker.decompress(packed, file.size + 1)
    except zlib.error as error:
        raise DataError(f"{path} is not a whole gzip file ({error}): {remedy}") from error
    if len(content) > file.size:
        raise DataError(f"{path} unpacks to more than the {file.size} bytes of {file.name}: {remedy}")
    if not unpacker.eof:
        raise DataError(f"{path} ends too early: {remedy}")
    return content
