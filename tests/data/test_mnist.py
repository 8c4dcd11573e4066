"""The MNIST that the package carries, against what was published, and the script that packs it."""

from __future__ import annotations

import lzma
import runpy
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.published_images import (
    bits_of,
    contents_of,
    idx,
    labels_of,
    published,
    published_images,
    put,
    sha256_of_bits,
)
from jsa.data import Splits, load
from jsa.data.mnist import mnist_images, unpack_archive
from jsa.data.published_files import PublishedImages
from jsa.errors import DataError

TRAIN_IMAGES = "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
TEST_LABELS = "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"

STATIC_BITS = {
    "train": "0d438a68f05c47ac525a2fe0efd2873e84a8409b2a36995794c076cbf1675eb2",
    "valid": "d96f74e6b997bf8c8d8f16916b2ad298601911a3a972a3312db132a302272506",
    "test": "9e9c0e6d783d726df2bc9d1f19a29cf0cb75af2eb46c2e4b13085548943eb00b",
}

PIXELS = np.arange(3 * 4 * 5).reshape(3, 4, 5)
CONTENTS = contents_of(PIXELS, PIXELS[:1])
PUBLISHED = published_images(CONTENTS)
ARCHIVE = b"".join(CONTENTS[file.name] for file in PUBLISHED.files)
Build = Callable[[Path, Path, PublishedImages], int]
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "build_mnist.py"


def test_the_images_are_the_published_bytes() -> None:
    training, test = mnist_images()
    assert published("", idx(training.pixels.reshape(-1, 28, 28))).sha256 == TRAIN_IMAGES
    assert published("", idx(test.labels)).sha256 == TEST_LABELS
    assert training.image_shape == (28, 28)
    assert mnist_images() is mnist_images()
    assert len(files("jsa.data").joinpath("mnist.xz").read_bytes()) < 10_000_000


def test_an_archive_keeps_what_was_put_in() -> None:
    training, test = unpack_archive(lzma.compress(ARCHIVE), PUBLISHED)
    assert np.array_equal(training.pixels, PIXELS.reshape(3, 20))
    assert training.image_shape == (4, 5)
    assert (training.labels.tolist(), test.labels.tolist()) == ([0, 1, 2], [0])


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda packed: packed[:-9], "mnist.xz does not hold the"),
        (lambda packed: b"", "mnist.xz does not hold the"),
        (lambda packed: b"not an archive", "mnist.xz cannot be unpacked"),
        (lambda packed: packed[:40] + bytes([packed[40] ^ 255]) + packed[41:], "mnist.xz cannot be unpacked"),
        (
            lambda packed: lzma.compress(ARCHIVE[:30] + bytes([ARCHIVE[30] ^ 1]) + ARCHIVE[31:]),
            "train-images-idx3-ubyte in mnist.xz is not the published train-images-idx3-ubyte, for its sha256",
        ),
        (lambda packed: lzma.compress(ARCHIVE + b"more"), "does not hold the"),
    ],
)
def test_a_damaged_archive_is_one_sentence(damage: Callable[[bytes], bytes], sentence: str) -> None:
    with pytest.raises(DataError, match=f"{sentence}.*install jsa again"):
        unpack_archive(damage(lzma.compress(ARCHIVE)), PUBLISHED)


@pytest.fixture(scope="module")
def build() -> Build:
    """What the script does."""
    if not SCRIPT.is_file():
        pytest.skip("the script is part of the repository, not of the distribution")
    packed: Build = runpy.run_path(str(SCRIPT))["build"]
    return packed


def test_the_script_packs_the_same_archive_each_time(build: Build, tmp_path: Path) -> None:
    output = put(tmp_path, CONTENTS) / "mnist.xz"
    assert build(tmp_path, output, PUBLISHED) == output.stat().st_size
    first = output.read_bytes()
    build(tmp_path, output, PUBLISHED)
    assert output.read_bytes() == first
    training, _ = unpack_archive(first, PUBLISHED)
    assert training.pixels.reshape(-1).tolist() == list(range(60))
    assert not list(tmp_path.glob(".*"))


def test_the_script_refuses_other_files(build: Build, tmp_path: Path) -> None:
    put(tmp_path, {**CONTENTS, "train-labels-idx1-ubyte": idx(np.array([0, 1, 9]))})
    with pytest.raises(DataError, match="is not the published train-labels-idx1-ubyte, for its sha256"):
        build(tmp_path, tmp_path / "mnist.xz", PUBLISHED)
    assert not (tmp_path / "mnist.xz").exists()


def test_threshold_keeps_the_first_5000_for_validation(threshold: Splits) -> None:
    training, test = mnist_images()
    assert [len(part) for part in threshold.parts.values()] == [55_000, 5_000, 10_000]
    bright = training.pixels / 255 > 0.5
    expected = (bright[5_000:], bright[:5_000], test.pixels / 255 > 0.5)
    assert all(map(np.array_equal, bits_of(threshold), expected))
    assert labels_of(threshold)[0] == training.labels[5_000:].tolist()
    assert (threshold.schema.image_shape, threshold.schema.classes) == ((28, 28), 2)


def test_the_static_draw_is_the_same_everywhere_in_larochelles_split(static: Splits) -> None:
    training, test = mnist_images()
    labels = training.labels.tolist()
    assert [sha256_of_bits(bits) for bits in bits_of(static)] == list(STATIC_BITS.values())
    assert labels_of(static) == [labels[:50_000], labels[50_000:], test.labels.tolist()]


def test_the_static_draw_follows_the_intensities(static: Splits) -> None:
    training, _ = mnist_images()
    gray = training.pixels[:50_000]
    bits = bits_of(static)[0]
    assert not bits[gray == 0].any()
    assert bits[gray == 255].all()
    probability = gray / 255
    spread = np.sqrt((probability * (1 - probability)).sum()) / gray.size
    assert abs(bits.mean() - probability.mean()) < 4 * spread
    middle = (gray > 100) & (gray < 156)
    expected = probability[middle]
    allowed = 4 * np.sqrt((expected * (1 - expected)).sum()) / middle.sum()
    assert abs(bits[middle].mean() - expected.mean()) < allowed


def test_dynamic_shares_validation_and_test_with_static(static: Splits) -> None:
    dynamic = load("mnist-dynamic", seed=3)
    assert (dynamic.name, len(dynamic.train)) == ("mnist-dynamic", 50_000)
    once, *others = bits_of(static)
    assert all(map(np.array_equal, bits_of(dynamic), others))
    assert (dynamic.train.rows_change, dynamic.valid.rows_change) == (True, False)
    assert labels_of(dynamic) == labels_of(static)
    everything = dynamic.train.batch(torch.arange(50_000)).x.numpy()
    assert abs(everything.mean() - once.mean()) < 2e-4
    assert not np.array_equal(everything, once)


def test_datasets_of_one_process_do_not_share_memory(static: Splits) -> None:
    before = bits_of(static)[0][0].copy()
    bits_of(load("mnist-static"))[0].fill(1)
    assert np.array_equal(bits_of(static)[0][0], before)
