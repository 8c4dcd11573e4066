"""The static binarization of Salakhutdinov and Murray: the real one where it is, made-up ones everywhere."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from jsa.data import Splits, load
from jsa.data.downloads import SALAKHUTDINOV, PublishedAmat, PublishedFile
from jsa.data.salakhutdinov import PACKED_NAME, amat_sha256, amat_text, mnist_salakhutdinov
from jsa.errors import DataError

BITS = {
    name: np.random.default_rng(rows).integers(0, 2, (rows, 784)).astype(np.uint8)
    for name, rows in (("train", 700), ("valid", 3), ("test", 5))
}


def text_of(bits: np.ndarray) -> bytes:
    return "".join(" ".join(map(str, row)) + "\n" for row in bits.tolist()).encode()


def published_of(bits: dict[str, np.ndarray]) -> PublishedAmat:
    files = []
    for name, values in bits.items():
        text = text_of(values)
        files.append(PublishedFile(f"binarized_mnist_{name}.amat", len(text), hashlib.sha256(text).hexdigest()))
    return PublishedAmat(*files)


PUBLISHED = published_of(BITS)


def put_text(folder: Path) -> Path:
    for name, bits in BITS.items():
        (folder / f"binarized_mnist_{name}.amat").write_bytes(text_of(bits))
    return folder


def put_packed(folder: Path, **changed: np.ndarray) -> Path:
    np.savez_compressed(folder / PACKED_NAME, **{n: np.packbits(b, axis=1) for n, b in BITS.items()} | changed)
    return folder


def is_ours(splits: Splits) -> bool:
    return all(np.array_equal(getattr(splits, name).rows.numpy(), bits) for name, bits in BITS.items())


@pytest.mark.parametrize("put", [put_text, put_packed])
def test_both_kinds_of_file_hold_the_rows(tmp_path, put):
    splits = mnist_salakhutdinov(put(tmp_path), published=PUBLISHED)
    assert is_ours(splits)
    assert splits.image_shape == (28, 28)
    assert splits.train.labels is None


def test_the_folder_is_found_by_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("JSA_DATA_DIR", str(put_text(tmp_path)))
    assert is_ours(mnist_salakhutdinov(None, published=PUBLISHED))


def test_the_text_is_that_of_the_original():
    packed = np.packbits(BITS["valid"], axis=1)
    assert amat_text(packed).tobytes() == text_of(BITS["valid"])


def test_the_checksum_is_that_of_the_whole_text():
    packed = np.packbits(BITS["train"], axis=1)  # more rows than are made at a time
    assert amat_sha256(packed) == PUBLISHED.train.sha256


def test_one_wrong_pixel_is_refused(tmp_path):
    wrong = np.packbits(BITS["test"], axis=1)
    wrong[2, 50] ^= 1
    put_packed(tmp_path, test=wrong)
    with pytest.raises(DataError, match=r"does not hold the published binarized_mnist_test.amat"):
        mnist_salakhutdinov(tmp_path, published=PUBLISHED)


def test_one_wrong_character_is_refused(tmp_path):
    path = put_text(tmp_path) / "binarized_mnist_valid.amat"
    text = bytearray(path.read_bytes())
    text[100] ^= 1
    path.write_bytes(text)
    with pytest.raises(DataError, match=r"binarized_mnist_valid.amat is not the published .*jsa data fetch"):
        mnist_salakhutdinov(tmp_path, published=PUBLISHED)


def test_a_text_cut_short_is_refused(tmp_path):
    path = put_text(tmp_path) / "binarized_mnist_train.amat"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=f"for it has {700 * 1568 - 1} bytes instead of {700 * 1568}"):
        mnist_salakhutdinov(tmp_path, published=PUBLISHED)


@pytest.mark.parametrize("wrong", [np.zeros((3, 784), np.uint8), np.zeros((3, 98), np.int64)])
def test_an_array_of_another_kind_is_refused(tmp_path, wrong):
    put_packed(tmp_path, valid=wrong)
    with pytest.raises(DataError, match="does not hold the array 'valid' of 3 x 98 bytes"):
        mnist_salakhutdinov(tmp_path, published=PUBLISHED)


def test_a_missing_array_is_named(tmp_path):
    np.savez_compressed(tmp_path / PACKED_NAME, train=np.packbits(BITS["train"], axis=1))
    with pytest.raises(DataError, match="does not hold the array 'valid'"):
        mnist_salakhutdinov(tmp_path, published=PUBLISHED)


def test_a_packed_file_cut_short_is_refused(tmp_path):
    path = put_packed(tmp_path) / PACKED_NAME
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=f"{re.escape(PACKED_NAME)} is not a whole .npz file"):
        mnist_salakhutdinov(tmp_path, published=PUBLISHED)


def test_without_files_the_error_says_all_three_ways(tmp_path):
    for folder in (None, tmp_path):
        with pytest.raises(DataError) as caught:
            load("mnist-salakhutdinov", data_dir=folder)
        for part in ("JSA_DATA_DIR", "--data-dir", "jsa data fetch", PACKED_NAME, "binarized_mnist_valid.amat"):
            assert part in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_the_real_packed_file(salakhutdinov_folder):
    splits = load("mnist-salakhutdinov", data_dir=salakhutdinov_folder)
    parts = (splits.train, splits.valid, splits.test)
    assert [len(part) for part in parts] == [50_000, 10_000, 10_000]
    means = [part.rows.double().mean().item() for part in parts]
    assert means == pytest.approx([0.13056, 0.13113, 0.13251], abs=5e-6)


def test_the_real_text_files(salakhutdinov_folder, tmp_path):
    with np.load(salakhutdinov_folder / PACKED_NAME, allow_pickle=False) as arrays:
        for name, file in zip(("train", "valid", "test"), SALAKHUTDINOV.files, strict=True):
            (tmp_path / file.name).write_bytes(amat_text(arrays[name]).data)
    from_text = load("mnist-salakhutdinov", data_dir=tmp_path)
    from_packed = load("mnist-salakhutdinov", data_dir=salakhutdinov_folder)
    for name in ("train", "valid", "test"):
        assert torch.equal(getattr(from_text, name).rows, getattr(from_packed, name).rows)
    for file in SALAKHUTDINOV.files:
        (tmp_path / file.name).unlink()
