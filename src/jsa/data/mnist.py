"""MNIST, which is part of the package: no download or preparation is needed.

`mnist.xz` has the four published IDX files, one after the other, in one xz stream; `scripts/build_mnist.py` makes it.
The checksums of the original files are verified whenever it is unpacked.
"""

from __future__ import annotations

import functools
import lzma
from dataclasses import replace
from importlib.resources import files

import torch

from jsa.data.binarization import DynamicBinarization, threshold
from jsa.data.images import GrayImages, parse_images, static_splits
from jsa.data.published_files import MNIST, PublishedImages, verify
from jsa.data.splits import Splits
from jsa.errors import DataError

ARCHIVE_NAME = "mnist.xz"
LAROCHELLE_TRAIN_ROWS = 50_000
THRESHOLD_VALID_ROWS = 5_000
_REINSTALL = "the installation is damaged, install jsa again"
_MEMORY_LIMIT = 1 << 27  # bytes; the archive needs a dictionary of 64 MiB


def mnist_threshold() -> Splits:
    """Return MNIST with pixels on if brighter than half; the first 5,000 training images are for validation."""
    training, test = mnist_images()
    bits = threshold(training.pixels)
    valid_rows = THRESHOLD_VALID_ROWS
    return Splits(
        name="mnist-threshold",
        train=training.rows(valid_rows, len(training)).binarized(bits[valid_rows:]),
        valid=training.rows(0, valid_rows).binarized(bits[:valid_rows]),
        test=test.binarized(threshold(test.pixels)),
    )


def mnist_static() -> Splits:
    """Return MNIST after one Bernoulli draw of the intensities, the same on every machine and forever."""
    training, test = mnist_images()
    return static_splits("mnist-static", training, test, LAROCHELLE_TRAIN_ROWS)


def mnist_dynamic(seed: int) -> Splits:
    """Return MNIST with training images redrawn every epoch, and the validation and test rows of `mnist-static`."""
    training, _ = mnist_images()
    seen = training.rows(0, LAROCHELLE_TRAIN_ROWS)
    gray, labels = (torch.from_numpy(values.copy()) for values in (seen.pixels, seen.labels))
    train = DynamicBinarization(gray, seen.schema, seed=seed, labels=labels)
    return replace(mnist_static(), name="mnist-dynamic", train=train)


@functools.cache
def mnist_images() -> tuple[GrayImages, GrayImages]:
    """Return the 60,000 training and 10,000 test images, unpacked once per process."""
    try:
        packed = files("jsa.data").joinpath(ARCHIVE_NAME).read_bytes()
    except OSError as error:
        raise DataError(f"{ARCHIVE_NAME} cannot be read ({error}): {_REINSTALL}") from error
    return unpack_archive(packed)


def unpack_archive(
    packed: bytes, published: PublishedImages = MNIST, source: str = ARCHIVE_NAME
) -> tuple[GrayImages, GrayImages]:
    """Return the verified training and test images of the archive."""
    expected = sum(file.size for file in published.files)
    unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MEMORY_LIMIT)
    try:
        content = memoryview(unpacker.decompress(packed, max_length=expected + 1))
    except (lzma.LZMAError, EOFError) as error:
        raise DataError(f"{source} cannot be unpacked ({error}): {_REINSTALL}") from error
    if not unpacker.eof or len(content) != expected:
        raise DataError(f"{source} does not hold the {expected} bytes that it should: {_REINSTALL}")
    contents = {}
    start = 0
    for file in published.files:
        contents[file] = content[start : start + file.size]
        start += file.size
    verify(((file, f"{file.name} in {source}", part) for file, part in contents.items()), _REINSTALL)
    return parse_images(published, contents, source)
