"""Checksums, several at a time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jsa.data.published import PublishedFile
from jsa.errors import DataError

_CHUNK = 1 << 20


def sha256_of_file(path: Path) -> str:
    """The checksum of a file, which may be larger than the memory."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def read_copy(path: Path, file: PublishedFile, remedy: str) -> bytes:
    """The content of a copy of a published file; one of another size is refused before anything is read.

    Args:
        path: The copy.
        file: What was published.
        remedy: What the user can do about a wrong copy, to end the sentence of the error.
    """
    try:
        with path.open("rb") as stream:
            _check_size(file, str(path), os.fstat(stream.fileno()).st_size, remedy)
            return stream.read(file.size)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def verify(copies: Iterable[tuple[PublishedFile, str, bytes | memoryview]], remedy: str) -> None:
    """Refuse a content that is not what was published.

    The checksums are computed in threads, for which hashlib releases the interpreter's lock.

    Args:
        copies: Each file as published, what to call the copy in an error, and the copy's content.
        remedy: What the user can do about a wrong copy, to end the sentence of the error.
    """
    listed = list(copies)
    for file, source, content in listed:
        _check_size(file, source, len(content), remedy)
    with ThreadPoolExecutor() as pool:
        digests = pool.map(lambda copy: hashlib.sha256(copy[2]).hexdigest(), listed)
        for (file, source, _), digest in zip(listed, digests, strict=True):
            if digest != file.sha256:
                raise DataError(f"{source} is not the published {file.name}, for its sha256 is {digest}: {remedy}")


def _check_size(file: PublishedFile, source: str, size: int, remedy: str) -> None:
    if size != file.size:
        raise DataError(
            f"{source} is not the published {file.name}, for it has {size} bytes instead of {file.size}: {remedy}"
        )
