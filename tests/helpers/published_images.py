"""Small files in the format of MNIST, made up."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

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


def put(folder: Path, contents: Mapping[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder
