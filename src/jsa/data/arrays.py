"""numpy's files, read without trusting them.

`numpy.load` allocates what a header announces, and answers a damaged file with whichever error its parser
happens to meet. Here the announced size is compared with the file before anything is allocated, nothing is
ever unpickled, and every failure is one sentence.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from jsa.errors import DataError

_BEST_DEFLATE = 1032  # deflate packs at most about 1032 bytes into one
_SLACK = 1 << 12


def read_npy(path: Path) -> np.ndarray:
    """The array of a .npy file."""
    try:
        with path.open("rb") as stream:
            return _read_array(stream, path.stat().st_size, str(path))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .npz file, under their names."""
    try:
        with path.open("rb") as stream:
            return _read_archive(stream, path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def _read_archive(stream: IO[bytes], path: Path) -> dict[str, np.ndarray]:
    arrays = {}
    try:
        with zipfile.ZipFile(stream) as archive:
            for member in archive.infolist():
                if member.file_size > _BEST_DEFLATE * member.compress_size + _SLACK:
                    raise DataError(f"{path} announces more than it can hold: get or make the file again")
                name = member.filename.removesuffix(".npy")
                with archive.open(member) as content:
                    arrays[name] = _read_array(content, member.file_size, f"{path}, array '{name}'")
    except DataError:
        raise
    except Exception as error:  # zipfile and zlib raise a dozen types, without a common base
        raise DataError(f"{path} is not a whole .npz file ({error}): get or make the file again") from error
    return arrays


def _read_array(stream: IO[bytes], size: int, source: str) -> np.ndarray:
    try:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
        announced = math.prod(shape) * dtype.itemsize
        if dtype.hasobject:
            raise DataError(f"{source} holds Python objects, which are never read: save plain numbers")
        if announced != size - stream.tell():
            raise DataError(
                f"{source} is damaged, for its header announces {announced} bytes of values "
                f"and {size - stream.tell()} follow: get or make the file again"
            )
        stream.seek(0)
        return np.lib.format.read_array(stream, allow_pickle=False)
    except DataError:
        raise
    except Exception as error:  # the header is parsed as a Python literal, which can fail in any way
        raise DataError(f"{source} is not a whole .npy array ({error}): get or make the file again") from error
