"""Gray pictures with labels, and the splits that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import UInt8

from jsa.data.binarise import bernoulli
from jsa.data.dataset import IndexedDataset
from jsa.data.idx import parse_idx
from jsa.data.published import PublishedFile, PublishedPictures
from jsa.data.splits import Splits
from jsa.errors import DataError


@dataclass(frozen=True)
class GrayPictures:
    """Pictures of one shape, a row each, with their labels."""

    pixels: UInt8[np.ndarray, "rows pixels"]
    labels: UInt8[np.ndarray, " rows"]
    image_shape: tuple[int, int]

    def __len__(self) -> int:
        return len(self.pixels)

    def rows(self, start: int, stop: int) -> GrayPictures:
        """The pictures from `start` up to `stop`."""
        return GrayPictures(self.pixels[start:stop], self.labels[start:stop], self.image_shape)


def parse_pictures(
    published: PublishedPictures, contents: Mapping[PublishedFile, bytes | memoryview], source: str
) -> tuple[GrayPictures, GrayPictures]:
    """Training and test pictures out of the contents of the four IDX files."""

    def parse(images: PublishedFile, labels: PublishedFile) -> GrayPictures:
        pixels = parse_idx(contents[images], 3, f"{images.name} of {source}")
        classes = parse_idx(contents[labels], 1, f"{labels.name} of {source}")
        if len(pixels) != len(classes):
            raise DataError(f"{source} has {len(pixels)} pictures in {images.name}, but {len(classes)} labels")
        return GrayPictures(pixels.reshape(len(pixels), -1), classes, (pixels.shape[1], pixels.shape[2]))

    return (
        parse(published.train_images, published.train_labels),
        parse(published.test_images, published.test_labels),
    )


def binary_dataset(bits: UInt8[np.ndarray, "rows pixels"], pictures: GrayPictures) -> IndexedDataset:
    """The binarised pictures, with the labels of the gray ones."""
    return IndexedDataset(torch.from_numpy(bits), labels=torch.from_numpy(pictures.labels.copy()))


def static_splits(name: str, training: GrayPictures, test: GrayPictures, train_rows: int) -> Splits:
    """One draw of the intensities, fixed for good by the dataset's name.

    The first `train_rows` of the training pictures are learned from and the rest are validation, which for
    MNIST is Larochelle's split.
    """
    bits = bernoulli(training.pixels, f"{name} train")
    return Splits(
        name=name,
        train=binary_dataset(bits[:train_rows], training.rows(0, train_rows)),
        valid=binary_dataset(bits[train_rows:], training.rows(train_rows, len(training))),
        test=binary_dataset(bernoulli(test.pixels, f"{name} test"), test),
        classes=2,
        image_shape=training.image_shape,
    )
