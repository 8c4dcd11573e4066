"""The MNIST that the package carries, against what was published."""

from __future__ import annotations

import hashlib
import lzma
from importlib.resources import files

import numpy as np
import pytest
import torch

from jsa.data import load
from jsa.data.downloads import PublishedFile, PublishedPictures
from jsa.data.mnist import mnist_pictures, unpack_archive
from jsa.errors import DataError

TRAIN_IMAGES = "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
TEST_LABELS = "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"

STATIC_BITS = {
    "train": "0d438a68f05c47ac525a2fe0efd2873e84a8409b2a36995794c076cbf1675eb2",
    "valid": "d96f74e6b997bf8c8d8f16916b2ad298601911a3a972a3312db132a302272506",
    "test": "9e9c0e6d783d726df2bc9d1f19a29cf0cb75af2eb46c2e4b13085548943eb00b",
}


def idx(values: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, dtype=">u4").tobytes()
    return header + values.astype(np.uint8).tobytes()


def small_archive() -> tuple[bytes, PublishedPictures, np.ndarray]:
    pixels = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)
    contents = [idx(pixels), idx(pixels[:1]), idx(np.array([1, 2, 3])), idx(np.array([9]))]
    file = [
        PublishedFile(name, len(content), hashlib.sha256(content).hexdigest())
        for name, content in zip("abcd", contents, strict=True)
    ]
    published = PublishedPictures(train_images=file[0], test_images=file[1], train_labels=file[2], test_labels=file[3])
    return b"".join(contents), published, pixels


def test_the_pictures_are_the_published_bytes():
    training, test = mnist_pictures()
    header = bytes.fromhex("00000803") + (60_000).to_bytes(4) + (28).to_bytes(4) + (28).to_bytes(4)
    assert hashlib.sha256(header + training.pixels.tobytes()).hexdigest() == TRAIN_IMAGES
    labels = bytes.fromhex("00000801") + (10_000).to_bytes(4) + test.labels.tobytes()
    assert hashlib.sha256(labels).hexdigest() == TEST_LABELS
    assert training.image_shape == (28, 28)


def test_the_archive_is_unpacked_once():
    assert mnist_pictures() is mnist_pictures()


def test_the_archive_is_small_enough_to_be_carried():
    assert len(files("jsa.data").joinpath("mnist.xz").read_bytes()) < 10_000_000


def test_an_archive_keeps_what_was_put_in():
    content, published, pixels = small_archive()
    training, test = unpack_archive(lzma.compress(content), published)
    assert np.array_equal(training.pixels, pixels.reshape(3, 20))
    assert training.image_shape == (4, 5)
    assert training.labels.tolist() == [1, 2, 3]
    assert test.labels.tolist() == [9]


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda packed: packed[:-9], "mnist.xz does not hold the"),
        (lambda packed: b"", "mnist.xz does not hold the"),
        (lambda packed: b"not an archive", "mnist.xz cannot be unpacked"),
        (lambda packed: packed[:40] + bytes([packed[40] ^ 255]) + packed[41:], "mnist.xz cannot be unpacked"),
    ],
)
def test_a_damaged_archive_is_one_sentence(damage, sentence):
    content, published, _ = small_archive()
    with pytest.raises(DataError, match=f"{sentence}.*install jsa again"):
        unpack_archive(damage(lzma.compress(content)), published)


def test_an_archive_of_something_else_is_refused():
    content, published, _ = small_archive()
    other = content[:30] + bytes([content[30] ^ 1]) + content[31:]
    with pytest.raises(DataError, match=r"a in mnist.xz is not the published a, for its sha256"):
        unpack_archive(lzma.compress(other), published)
    with pytest.raises(DataError, match="does not hold the"):
        unpack_archive(lzma.compress(content + b"more"), published)


def test_threshold_keeps_the_first_5000_for_validation(threshold):
    training, test = mnist_pictures()
    assert (len(threshold.train), len(threshold.valid), len(threshold.test)) == (55_000, 5_000, 10_000)
    bright = training.pixels / 255 > 0.5
    assert np.array_equal(threshold.valid.rows.numpy(), bright[:5_000])
    assert np.array_equal(threshold.train.rows.numpy(), bright[5_000:])
    assert np.array_equal(threshold.test.rows.numpy(), test.pixels / 255 > 0.5)
    assert threshold.train.labels.tolist() == training.labels[5_000:].tolist()
    assert threshold.image_shape == (28, 28)
    assert threshold.classes == 2


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_the_static_draw_is_the_same_everywhere(static, part):
    bits = getattr(static, part).rows.numpy()
    assert hashlib.sha256(np.packbits(bits, axis=1)).hexdigest() == STATIC_BITS[part]


def test_the_static_split_is_larochelles(static):
    training, test = mnist_pictures()
    assert static.train.labels.tolist() == training.labels[:50_000].tolist()
    assert static.valid.labels.tolist() == training.labels[50_000:].tolist()
    assert static.test.labels.tolist() == test.labels.tolist()


def test_the_static_draw_follows_the_intensities(static):
    training, _ = mnist_pictures()
    gray = training.pixels[:50_000]
    bits = static.train.rows.numpy()
    assert not bits[gray == 0].any()
    assert bits[gray == 255].all()
    probability = gray / 255
    spread = np.sqrt((probability * (1 - probability)).sum()) / gray.size
    assert abs(bits.mean() - probability.mean()) < 4 * spread
    middle = (gray > 100) & (gray < 156)
    expected = probability[middle]
    allowed = 4 * np.sqrt((expected * (1 - expected)).sum()) / middle.sum()
    assert abs(bits[middle].mean() - expected.mean()) < allowed


def test_dynamic_shares_validation_and_test_with_static(static):
    dynamic = load("mnist-dynamic", seed=3)
    assert dynamic.name == "mnist-dynamic"
    assert torch.equal(dynamic.valid.rows, static.valid.rows)
    assert torch.equal(dynamic.test.rows, static.test.rows)
    assert len(dynamic.train) == 50_000
    assert dynamic.train.rows_change
    assert not dynamic.valid.rows_change
    assert torch.equal(dynamic.train.labels, static.train.labels)
    everything = dynamic.train.batch(torch.arange(50_000)).x
    assert abs(everything.mean().item() - static.train.rows.float().mean().item()) < 2e-4
    assert not torch.equal(everything, static.train.rows.float())


def test_datasets_of_one_process_do_not_share_memory(static):
    static_again = load("mnist-static")
    before = static.train.rows[0].clone()
    static_again.train.rows.fill_(1)
    assert torch.equal(static.train.rows[0], before)
