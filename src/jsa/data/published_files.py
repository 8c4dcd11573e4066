"""Published data files and their checksums."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from jsa.errors import DataError
from jsa.io.regular_files import open_regular

IMAGE_PIXELS = 28 * 28

AMAT_LINE = 2 * IMAGE_PIXELS
"""The bytes of a row in the .amat text: each pixel is `0` or `1`, followed by a space or the line's end."""


@dataclass(frozen=True)
class PublishedFile:
    """A file as published.

    Attributes:
        name: Its name.
        size: Its length in bytes, unpacked.
        sha256: The checksum of those bytes, in hexadecimal.
    """

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class PublishedImages:
    """The four IDX files of MNIST and of the datasets that follow it."""

    train_images: PublishedFile
    train_labels: PublishedFile
    test_images: PublishedFile
    test_labels: PublishedFile

    @property
    def files(self) -> tuple[PublishedFile, ...]:
        """All four, in the order of the built-in archive: images, then labels."""
        return self.train_images, self.test_images, self.train_labels, self.test_labels


@dataclass(frozen=True)
class PublishedBits:
    """A split of the static binarization.

    Attributes:
        text: The text file.
        packed_sha256: The checksum of its rows with eight pixels per byte (`numpy.packbits`).
    """

    text: PublishedFile
    packed_sha256: str


def _images(name: str, rows: int, sha256: str) -> PublishedFile:
    return PublishedFile(f"{name}-images-idx3-ubyte", 16 + rows * IMAGE_PIXELS, sha256)


def _labels(name: str, rows: int, sha256: str) -> PublishedFile:
    return PublishedFile(f"{name}-labels-idx1-ubyte", 8 + rows, sha256)


def _bits(split: str, rows: int, sha256: str, packed_sha256: str) -> PublishedBits:
    return PublishedBits(PublishedFile(f"binarized_mnist_{split}.amat", rows * AMAT_LINE, sha256), packed_sha256)


MNIST = PublishedImages(
    _images("train", 60_000, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    _labels("train", 60_000, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    _images("t10k", 10_000, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    _labels("t10k", 10_000, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
)

FASHION_MNIST = PublishedImages(
    _images("train", 60_000, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
    _labels("train", 60_000, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
    _images("t10k", 10_000, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
    _labels("t10k", 10_000, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
)

SALAKHUTDINOV: Mapping[str, PublishedBits] = MappingProxyType(
    {
        "train": _bits(
            *("train", 50_000, "ad693b29f94c14277b095f5238ddefbbdaaae0939789dd2f4f0205278cee3e4d"),
            "727146c35424b019f3e350e1e69faa05644a0abaf787e3f4e1a9632220a13906",
        ),
        "valid": _bits(
            *("valid", 10_000, "1de3d397c40fe8eeb33dafd4099a1f665ec01e96d9be234aaeeac8a34930e2e2"),
            "a256ac44ae26be720fad8616a05ed6ecfd1619930d9a208379bb2a4405df5b6d",
        ),
        "test": _bits(
            *("test", 10_000, "e6687bfea3f820c174f33b7865140b2a2dd2930ef786f35d45795fc193b5ab2c"),
            "9fcd8da6f0fdf09b2ba30fe63a0bb784042a0de82563172530229b983e294ff2",
        ),
    }
)


def read_copy(path: Path, file: PublishedFile, remedy: str) -> bytes:
    """Return the content of a copy of a published file, or refuse one of another size before reading it.

    Args:
        path: The copy.
        file: The published file.
        remedy: The end of the error sentence: what the user can do about a wrong copy.
    """
    try:
        with open_regular(path) as stream:
            _check_size(file, str(path), os.fstat(stream.fileno()).st_size, remedy)
            return stream.read(file.size)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def verify(copies: Iterable[tuple[PublishedFile, str, bytes | memoryview]], remedy: str) -> None:
    """Refuse content that differs from the published file.

    The checksums are computed in threads, because hashlib releases the interpreter lock.

    Args:
        copies: Each published file, the name of the copy in an error, and the copy's content.
        remedy: The end of the error sentence: what the user can do about a wrong copy.
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
