"""MNIST, which the package carries: no download, and nothing to prepare.

`mnist.xz` is the four published IDX files one after the other, in one xz stream; `scripts/build_mnist.py`
makes it. The checksums of the original files are verified whenever it is unpacked.
"""

from __future__ import annotations

import functools
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8

from jsa.data.binarization import DynamicBinarization, bernoulli, threshold
from jsa.data.catalog import ENVIRONMENT_VARIABLE, data_folders, searched
from jsa.data.dataset import IndexedDataset
from jsa.data.downloads import FASHION_MNIST, MNIST, PublishedFile, PublishedPictures, verify
from jsa.data.idx import parse_idx, read_idx_copy
from jsa.data.splits import Splits
from jsa.errors import DataError

ARCHIVE_NAME = "mnist.xz"
LAROCHELLE_TRAIN_ROWS = 50_000
THRESHOLD_VALID_ROWS = 5_000
_REINSTALL = "the installation is damaged, install jsa again"
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
        raise DataError(f"{source} cannot be unpacked ({error}): {_REINSTALL}") from error
    if not unpacker.eof or len(content) != expected:
        raise DataError(f"{source} does not hold the {expected} bytes that it should: {_REINSTALL}")
    contents = {}
    start = 0
    for file in published.files:
        contents[file] = content[start : start + file.size]
        start += file.size
    verify(((file, f"{file.name} in {source}", part) for file, part in contents.items()), _REINSTALL)
    return parse_pictures(published, contents, source)


@functools.cache
def mnist_pictures() -> tuple[GrayPictures, GrayPictures]:
    """The 60,000 training and 10,000 test pictures, unpacked once a process."""
    try:
        packed = files("jsa.data").joinpath(ARCHIVE_NAME).read_bytes()
    except OSError as error:
        raise DataError(f"{ARCHIVE_NAME} cannot be read ({error}): {_REINSTALL}") from error
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
    train = DynamicBinarization(
        torch.from_numpy(seen.pixels.copy()), seed=seed, labels=torch.from_numpy(seen.labels.copy())
    )
    return replace(mnist_static(), name="mnist-dynamic", train=train)


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
    """The binarized pictures, with the labels of the gray ones."""
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


DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
"""Where Debian's package dataset-fashion-mnist puts the files."""

_GET_AGAIN = "get the file again"


def fashion_mnist(
    data_dir: Path | None,
    *,
    published: PublishedPictures = FASHION_MNIST,
    train_rows: int = 50_000,
    system_folder: Path = DEBIAN_FOLDER,
) -> Splits:
    """One Bernoulli draw of the intensities, the same everywhere and for good.

    Its files have the names of MNIST's, so that a subfolder `fashion-mnist` is looked into first.
    """
    named = data_folders(data_dir)
    folders = [inner for folder in named for inner in (folder / "fashion-mnist", folder)] + [system_folder]
    found = _find(folders, published)
    contents = {file: read_idx_copy(path, file, _GET_AGAIN) for file, path in found.items()}
    verify(((file, str(found[file]), content) for file, content in contents.items()), _GET_AGAIN)
    training, test = parse_pictures(published, contents, str(found[published.train_images].parent))
    return static_splits("fashion-mnist", training, test, train_rows)


def _find(folders: Sequence[Path], published: PublishedPictures) -> dict[PublishedFile, Path]:
    """The four files, plain or packed, in the first folder that has them all."""
    for folder in folders:
        found = {}
        for file in published.files:
            for path in (folder / file.name, folder / f"{file.name}.gz"):
                if path.is_file():
                    found[file] = path
                    break
        if len(found) == len(published.files):
            return found
    wanted = ", ".join(file.name for file in published.files)
    raise DataError(
        f"fashion-mnist needs the files {wanted}, plain or as .gz, but {searched(folders)}: install Debian's "
        f"package dataset-fashion-mnist, or give the folder by --data-dir or {ENVIRONMENT_VARIABLE}"
    )
