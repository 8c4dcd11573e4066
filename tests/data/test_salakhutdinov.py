"""The static binarization of Salakhutdinov and Murray: the real one where it is, made-up ones everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from helpers.damage import Damage, cut, flipped, kept
from helpers.published_images import bits_of, published, put, sha256
from jsa.data import Splits, load
from jsa.data.published_files import SALAKHUTDINOV, PublishedBits
from jsa.data.salakhutdinov import PACKED_NAME, mnist_salakhutdinov
from jsa.errors import DataError

BITS = {
    name: np.random.default_rng(rows).integers(0, 2, (rows, 784)).astype(np.uint8)
    for name, rows in (("train", 70), ("valid", 3), ("test", 5))
}
PACKED = {name: np.packbits(bits, axis=1) for name, bits in BITS.items()}


def text_of(bits: np.ndarray) -> bytes:
    text = np.full((len(bits), 784, 2), ord(" "), dtype=np.uint8)
    text[..., 0] = bits + ord("0")
    text[:, -1, 1] = ord("\n")
    return text.tobytes()


PUBLISHED = {
    name: PublishedBits(published(f"binarized_mnist_{name}.amat", text_of(bits)), sha256(PACKED[name]))
    for name, bits in BITS.items()
}


def put_text(folder: Path) -> Path:
    return put(folder, {f"binarized_mnist_{name}.amat": text_of(bits) for name, bits in BITS.items()})


def put_packed(folder: Path, **changed: np.ndarray) -> Path:
    arrays = {**PACKED, **changed}
    whole = {name: array for name, array in arrays.items() if len(array)}
    np.savez_compressed(folder / PACKED_NAME, allow_pickle=False, **whole)
    return folder


def read(folder: Path | None) -> Splits:
    return mnist_salakhutdinov(folder, published=PUBLISHED)


def test_the_text_is_as_it_was_published() -> None:
    lines = [" ".join(map(str, row)) + "\n" for row in BITS["valid"].tolist()]
    assert text_of(BITS["valid"]) == "".join(lines).encode()


@pytest.mark.parametrize("put_files", [put_text, put_packed])
def test_both_kinds_of_file_hold_the_rows(
    tmp_path: Path, put_files: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = read(put_files(tmp_path))
    assert all(map(np.array_equal, bits_of(splits), BITS.values()))
    assert (splits.schema.image_shape, splits.train.labels) == ((28, 28), None)
    monkeypatch.setenv("JSA_DATA_DIR", str(tmp_path))
    assert len(read(None).train) == 70


def replaced(name: str, array: np.ndarray) -> Callable[[Path], object]:
    """The packed file with another array."""
    return lambda folder: put_packed(folder, **{name: array})


def damaged(damage: Damage) -> Callable[[Path], object]:
    """The text with damaged validation rows."""
    return lambda folder: damage(put_text(folder) / "binarized_mnist_valid.amat")


FLIPPED = PACKED["test"] ^ (np.arange(98) == 50).astype(np.uint8)


@pytest.mark.parametrize(
    ("put_files", "sentence"),
    [
        (replaced("test", FLIPPED), r"does not hold the published binarized_mnist_test.amat"),
        (replaced("valid", np.zeros((3, 784), np.uint8)), "does not hold the array 'valid' of 3 x 98 bytes"),
        (replaced("valid", np.zeros((3, 98), np.int64)), "does not hold the array 'valid' of 3 x 98 bytes"),
        (replaced("valid", np.zeros(0)), "does not hold the array 'valid'"),
        (damaged(flipped(100, bit=0)), r"_valid.amat is not the .*jsa data fetch"),
        (damaged(kept(-1)), f"for it has {3 * 1568 - 1} bytes instead of {3 * 1568}"),
        (lambda folder: cut(0.9)(put_packed(folder) / PACKED_NAME), f"{PACKED_NAME} is not a whole .npz file"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, put_files: Callable[[Path], object], sentence: str) -> None:
    put_files(tmp_path)
    with pytest.raises(DataError, match=sentence):
        read(tmp_path)


def test_without_files_the_error_says_all_three_ways(tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        with pytest.raises(DataError) as caught:
            load("mnist-salakhutdinov", data_dir=folder)
        for part in ("JSA_DATA_DIR", "--data-dir", "jsa data fetch", PACKED_NAME, "binarized_mnist_valid.amat"):
            assert part in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_the_real_files(data_folder: Path, tmp_path: Path) -> None:
    """Both checksums are of the same rows."""
    if not (data_folder / PACKED_NAME).is_file():
        pytest.skip(f"{PACKED_NAME} is not in ../shared/data: it may not be distributed with the project")
    splits = load("mnist-salakhutdinov", data_dir=data_folder)
    bits = bits_of(splits)
    assert [part.mean() for part in bits] == pytest.approx([0.13056, 0.13113, 0.13251], abs=5e-6)
    assert [len(part) for part in bits] == [50_000, 10_000, 10_000]
    for part, file in zip(bits, SALAKHUTDINOV.values(), strict=True):
        (tmp_path / file.text.name).write_bytes(text_of(part))
    assert all(map(np.array_equal, bits_of(load("mnist-salakhutdinov", data_dir=tmp_path)), bits))
    for file in SALAKHUTDINOV.values():
        (tmp_path / file.text.name).unlink()
