"""Gray images in the IDX format, in which MNIST and related datasets are published, and one fixed binary draw.

An IDX file is two zero bytes, the type of the values (8: unsigned bytes), the number of dimensions, then each
dimension as a big-endian 32-bit number, then the values.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import UInt8

from jsa.data.binarization import bernoulli
from jsa.data.dataset import IndexedDataset
from jsa.data.published_files import PublishedFile, PublishedImages
from jsa.data.schema import Schema
from jsa.data.splits import Splits
from jsa.errors import DataError

_UNSIGNED_BYTE = 8


@dataclass(frozen=True)
class GrayImages:
    """Images of one shape, one per row, with their labels."""

    pixels: UInt8[np.ndarray, "rows pixels"]
    labels: UInt8[np.ndarray, " rows"]
    image_shape: tuple[int, int]

    def __len__(self) -> int:
        return len(self.pixels)

    def rows(self, start: int, stop: int) -> GrayImages:
        """Return the images from `start` up to, but without, `stop`."""
        return GrayImages(self.pixels[start:stop], self.labels[start:stop], self.image_shape)

    @property
    def schema(self) -> Schema:
        """The columns of a binary row."""
        return Schema.of(self.pixels.shape[1], image_shape=self.image_shape)

    def binarized(self, bits: UInt8[np.ndarray, "rows pixels"]) -> IndexedDataset:
        """Return binary images with the labels of the gray ones."""
        return IndexedDataset(torch.from_numpy(bits), self.schema, labels=torch.from_numpy(self.labels.copy()))


def parse_idx(content: bytes | memoryview, dimensions: int, source: str) -> UInt8[np.ndarray, "..."]:
    """Return the array of an IDX file as a view of its content.

    The header must agree with the content: nothing is allocated on its word.

    Args:
        content: All bytes of the file.
        dimensions: The number of dimensions that the array must have: 3 for images, 1 for labels.
        source: The name of the file in an error.

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


def parse_images(
    published: PublishedImages, contents: Mapping[PublishedFile, bytes | memoryview], source: str
) -> tuple[GrayImages, GrayImages]:
    """Return training and test images from the contents of the four IDX files."""

    def parse(images: PublishedFile, labels: PublishedFile) -> GrayImages:
        pixels = parse_idx(contents[images], 3, f"{images.name} of {source}")
        classes = parse_idx(contents[labels], 1, f"{labels.name} of {source}")
        if len(pixels) != len(classes):
            raise DataError(f"{source} has {len(pixels)} images in {images.name}, but {len(classes)} labels")
        return GrayImages(pixels.reshape(len(pixels), -1), classes, (pixels.shape[1], pixels.shape[2]))

    return (
        parse(published.train_images, published.train_labels),
        parse(published.test_images, published.test_labels),
    )


def static_splits(name: str, training: GrayImages, test: GrayImages, train_rows: int) -> Splits:
    """Draw the intensities once, fixed forever by the dataset's name.

    The first `train_rows` training images are for training and the rest for validation; for MNIST, this is Larochelle's
    split.
    """
    bits = bernoulli(training.pixels, f"{name} train")
    return Splits(
        name=name,
        train=training.rows(0, train_rows).binarized(bits[:train_rows]),
        valid=training.rows(train_rows, len(training)).binarized(bits[train_rows:]),
        test=test.binarized(bernoulli(test.pixels, f"{name} test")),
    )
