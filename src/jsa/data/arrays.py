"""Untrusted numpy files.

`numpy.load` allocates the size that a header states, and reports a damaged file by whichever error its parser meets
first. Here the stated size is compared with the file and with the free memory before anything is allocated, nothing is
ever unpickled, and every failure is one sentence.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from jsa.errors import DataError, shortened
from jsa.io.memory import lack_of_room
from jsa.io.regular_files import open_regular

_BEST_DEFLATE = 1032  # deflate packs at most about 1032 bytes into one
_SLACK = 1 << 12
_LARGEST_HEADER = 1 << 14  # bytes; numpy itself refuses headers of more than 10,000
_UNSUSPICIOUS = 1 << 28  # bytes that any archive may unpack to
_LARGEST_RATIO = 100  # of what a larger one may unpack to, to its size; digits and tables reach 10 to 30
_CHECKS = 2  # bytes a value beside the array: the byte that it becomes, and whether it is missing


def read_npy(path: Path) -> np.ndarray:
    """Read the array of a .npy file."""
    try:
        with open_regular(path) as stream:
            return _read_array(stream, os.fstat(stream.fileno()).st_size, str(path))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of a .npz file, by name."""
    try:
        with open_regular(path) as stream:
            return _read_archive(stream, path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def _read_archive(stream: IO[bytes], path: Path) -> dict[str, np.ndarray]:
    arrays = {}
    try:
        with zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            _check_sizes(members, path)
            _refuse_beyond_memory(sum(member.file_size for member in members), str(path))
            for member in members:
                name = member.filename.removesuffix(".npy")
                with archive.open(member) as content:
                    arrays[name] = _read_array(content, member.file_size, f"{path}, array '{shortened(name)}'")
    except DataError:
        raise
    except Exception as error:  # zipfile and zlib raise a dozen types, without a common base
        raise DataError(f"{path} is not a whole .npz file ({shortened(error)}): get or make the file again") from error
    return arrays


def _check_sizes(members: list[zipfile.ZipInfo], path: Path) -> None:
    """Refuse an archive that states a size beyond what it can hold, or suspiciously large for its own size."""
    for member in members:
        # numpy writes these two; others may unpack to a million times their size, or use any amount of memory.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(f"{path} is packed in a way that numpy does not use: save it with numpy.savez_compressed")
        if member.file_size > _BEST_DEFLATE * member.compress_size + _SLACK:
            raise DataError(f"{path} announces more than it can hold: get or make the file again")
    unpacked = sum(member.file_size for member in members)
    if unpacked > max(_UNSUSPICIOUS, _LARGEST_RATIO * path.stat().st_size):
        raise DataError(
            f"{path} unpacks to {unpacked} bytes, more than {_LARGEST_RATIO} times its size: "
            "if that is right, save it unpacked with numpy.savez"
        )


def _refuse_beyond_memory(needed: float, source: str) -> None:
    if (lack := lack_of_room(needed)) is not None:
        raise DataError(f"{source} {lack}: use fewer rows, save it as bytes (uint8), or raise --memory-limit")


def _read_array(stream: IO[bytes], size: int, source: str) -> np.ndarray:
    try:
        # The parser reads as many bytes as a header states for itself; this buffer limits them.
        beginning = io.BytesIO(stream.read(_LARGEST_HEADER))
        version = np.lib.format.read_magic(beginning)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(beginning)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(beginning)
        announced = math.prod(shape) * dtype.itemsize
        if dtype.hasobject:
            raise DataError(f"{source} contains Python objects, which are never read: save plain numbers")
        if announced != size - beginning.tell():
            raise DataError(
                f"{source} is damaged, for its header announces {announced} bytes of values "
                f"and {size - beginning.tell()} follow: get or make the file again"
            )
        # Numbers that may be missing are copied once more, to fill in those that are.
        copies = 2 if dtype.kind == "f" else 1
        _refuse_beyond_memory(copies * announced + _CHECKS * math.prod(shape), source)
        stream.seek(0)
        return np.lib.format.read_array(stream, allow_pickle=False)
    except DataError:
        raise
    except Exception as error:  # the header is parsed as a Python literal, which can fail in any way
        reason = shortened(error)
        raise DataError(f"{source} is not a whole .npy array ({reason}): get or make the file again") from error
