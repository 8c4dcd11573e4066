"""MNIST, which the package carries: no download, and nothing to prepare.

`mnist.xz` is the four published IDX files one after the other, in one xz stream; `scripts/build_mnist.py`
makes it. The checksums of the original files are verified whenever it is unpacked.
"""

from __future__ import annotations

import functools
import lzma
from dataclasses import replace
from importlib.resources import files

import torch

from jsa.data.binarise import threshold
from jsa.data.dynamic import DynamicBinarisation
from jsa.data.pictures import GrayPictures, binary_dataset, parse_pictures, static_splits
from jsa.data.published import MNIST, PublishedPictures
from jsa.data.splits import Splits
from jsa.data.verify import verify
from jsa.errors import DataError

ARCHIVE_NAME = "mnist.xz"
LAROCHELLE_TRAIN_ROWS = 50_000
THRESHOLD_VALID_ROWS = 5_000
_REMEDY = "the installation is damaged, install jsa again"
_MEMORY_LIMIT = 1 << 27  # bytes; the archive needs a dictionary of 64 MiB


def unpack_archive(
    packed: bytes, published: PublishedPictures = MNIST, source: str = ARCHIVE_NAME
) -> tuple[GrayPictures, GrayPictures]:
    """Training and test pictures out of the archive, verified."""
    expected = sum(file.size for file in published.files)
    unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MEMORY_LIMIT)
    try:
        content = memoryview(unpacker.decompress(packed, max_length=expected + 1))
    except (lzma.LZMAError, EOFError) as error:
        raise DataError(f"{source} cannot be unpacked ({error}): {_REMEDY}") from error
    if not unpacker.eof or len(content) != expected:
        raise DataError(f"{source} does not hold the {expected} bytes that it should: {_REMEDY}")
    contents = {}
    start = 0
    for file in published.files:
        contents[file] = content[start : start + file.size]
        start += file.size
    verify(((file, f"{file.name} in {source}", part) for file, part in contents.items()), _REMEDY)
    return parse_pictures(published, contents, source)


@functools.cache
def mnist_pictures() -> tuple[GrayPictures, GrayPictures]:
    """The 60,000 training and 10,000 test pictures, unpacked once a process."""
    try:
        packed = files("jsa.data").joinpath(ARCHIVE_NAME).read_bytes()
    except OSError as error:
        raise DataError(f"{ARCHIVE_NAME} cannot be read ({error}): {_REMEDY}") from error
    return unpack_archive(packed)


def mnist_threshold() -> Splits:
    """A pixel is on where it is brighter than half. The first 5,000 training pictures are validation."""
    training, test = mnist_pictures()
    bits = threshold(training.pixels)
    valid_rows = THRESHOLD_VALID_ROWS
    return Splits(
        name="mnist-threshold",
        train=binary_dataset(bits[valid_rows:], training.rows(valid_rows, len(training))),
        valid=binary_dataset(bits[:valid_rows], training.rows(0, valid_rows)),
        test=binary_dataset(threshold(test.pixels), test),
        classes=2,
        image_shape=training.image_shape,
    )


def mnist_static() -> Splits:
    """One Bernoulli draw of the intensities, the same everywhere and for good."""
    training, test = mnist_pictures()
    return static_splits("mnist-static", training, test, LAROCHELLE_TRAIN_ROWS)


def mnist_dynamic(seed: int) -> Splits:
    """The training pictures drawn anew every epoch; validation and test are those of `mnist-static`."""
    training, _ = mnist_pictures()
    seen = training.rows(0, LAROCHELLE_TRAIN_ROWS)
    train = DynamicBinarisation(
        torch.from_numpy(seen.pixels.copy()), seed=seed, labels=torch.from_numpy(seen.labels.copy())
    )
    return replace(mnist_static(), name="mnist-dynamic", train=train)
