"""Small files in the format of MNIST, made up."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from jsa.data import IndexedDataset, Splits
from jsa.data.published_files import PublishedFile, PublishedImages


def idx(values: np.ndarray) -> bytes:
    shape = np.array(values.shape, dtype=">u4").tobytes()
    return bytes([0, 0, 8, values.ndim]) + shape + values.astype(np.uint8).tobytes()


def published(name: str, content: bytes) -> PublishedFile:
    return PublishedFile(name, len(content), hashlib.sha256(content).hexdigest())


def published_images(contents: Mapping[str, bytes]) -> PublishedImages:
    """Training images and labels, then those of the test."""
    return PublishedImages(*(published(name, content) for name, content in contents.items()))


def contents_of(training: np.ndarray, test: np.ndarray) -> dict[str, bytes]:
    """The four files of images whose labels are their numbers."""
    return {
        "train-images-idx3-ubyte": idx(training),
        "train-labels-idx1-ubyte": idx(np.arange(len(training))),
        "t10k-images-idx3-ubyte": idx(test),
        "t10k-labels-idx1-ubyte": idx(np.arange(len(test))),
    }


def labels_of(splits: Splits) -> list[list[int]]:
    """The labels of all parts, of those that have them."""
    return [[int(label) for label in part.labels] for part in splits.parts.values() if part.labels is not None]


def bits_of(splits: Splits) -> list[np.ndarray]:
    """The rows of all parts that are kept in memory as they are."""
    return [part.rows.numpy() for part in splits.parts.values() if isinstance(part, IndexedDataset)]


def sha256(values: np.ndarray) -> str:
    return hashlib.sha256(values.tobytes()).hexdigest()


def sha256_of_bits(bits: np.ndarray) -> str:
    return sha256(np.packbits(bits, axis=1))


def put(folder: Path, contents: Mapping[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder
