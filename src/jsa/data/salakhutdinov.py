"""The static binarization of MNIST by Salakhutdinov and Murray (2008), in Larochelle's split.

Many published numbers are on exactly these rows, so nothing else passes for them: whatever the file, the
checksum of the original text is verified.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8

from jsa.data.arrays import read_npz
from jsa.data.catalog import ENVIRONMENT_VARIABLE, data_folders, searched
from jsa.data.dataset import IndexedDataset
from jsa.data.downloads import AMAT_LINE, PICTURE_PIXELS, SALAKHUTDINOV, PublishedAmat, read_copy, verify
from jsa.data.splits import Splits
from jsa.errors import DataError

PACKED_NAME = "binarized_mnist_static.npz"
_ROWS_AT_A_TIME = 512
_REMEDY = "remove the file and run `jsa data fetch`"


def mnist_salakhutdinov(data_dir: Path | None, *, published: PublishedAmat = SALAKHUTDINOV) -> Splits:
    """The three splits, from the packed file if there is one, else from the three .amat files."""
    train, valid, test = _read(data_folders(data_dir), published)
    return Splits(
        name="mnist-salakhutdinov",
        train=IndexedDataset(torch.from_numpy(train)),
        valid=IndexedDataset(torch.from_numpy(valid)),
        test=IndexedDataset(torch.from_numpy(test)),
        classes=2,
        image_shape=(28, 28),
    )


def _read(folders: Sequence[Path], published: PublishedAmat) -> list[UInt8[np.ndarray, "rows pixels"]]:
    for folder in folders:
        if (folder / PACKED_NAME).is_file():
            return read_packed(folder / PACKED_NAME, published)
        texts = [folder / file.name for file in published.files]
        if all(path.is_file() for path in texts):
            return read_amat(folder, published)
    wanted = ", ".join(file.name for file in published.files)
    raise DataError(
        f"mnist-salakhutdinov needs {PACKED_NAME}, or {wanted}, but {searched(folders)}: "
        f"get the files with `jsa data fetch`, or give their folder by --data-dir or {ENVIRONMENT_VARIABLE}"
    )


def read_amat(folder: Path, published: PublishedAmat) -> list[UInt8[np.ndarray, "rows pixels"]]:
    """The three splits as the original text has them.

    The text needs no parser: once its checksum is right, every pixel is at a known place.
    """
    paths = {file: folder / file.name for file in published.files}
    texts = [(file, str(path), read_copy(path, file, _REMEDY)) for file, path in paths.items()]
    verify(texts, _REMEDY)
    return [np.frombuffer(text, np.uint8).reshape(-1, AMAT_LINE)[:, ::2] & 1 for _, _, text in texts]


def read_packed(path: Path, published: PublishedAmat) -> list[UInt8[np.ndarray, "rows pixels"]]:
    """The three splits from a file of eight pixels a byte, arrays `train`, `valid` and `test`."""
    arrays = read_npz(path)
    parts = []
    for name, file in (("train", published.train), ("valid", published.valid), ("test", published.test)):
        expected = (file.size // AMAT_LINE, PICTURE_PIXELS // 8)
        part = arrays.get(name)
        if part is None or part.dtype != np.uint8 or part.shape != expected:
            raise DataError(
                f"{path} does not hold the array '{name}' of {expected[0]} x {expected[1]} bytes: {_REMEDY}"
            )
        parts.append((file, np.ascontiguousarray(part)))
    with ThreadPoolExecutor() as pool:
        digests = pool.map(lambda part: amat_sha256(part[1]), parts)
        for (file, _), digest in zip(parts, digests, strict=True):
            if digest != file.sha256:
                raise DataError(
                    f"{path} does not hold the published {file.name}, for as text its sha256 is {digest}: {_REMEDY}"
                )
    return [np.unpackbits(part, axis=1) for _, part in parts]


def amat_sha256(packed: UInt8[np.ndarray, "rows bytes"]) -> str:
    """The checksum that packed rows have as .amat text, made a few rows at a time and never kept."""
    digest = hashlib.sha256()
    for start in range(0, len(packed), _ROWS_AT_A_TIME):
        digest.update(amat_text(packed[start : start + _ROWS_AT_A_TIME]).data)
    return digest.hexdigest()


def amat_text(packed: UInt8[np.ndarray, "rows bytes"]) -> UInt8[np.ndarray, "rows characters"]:
    """The .amat text of packed rows, as characters.

    >>> amat_text(np.array([[0b10000001]], dtype=np.uint8)).tobytes()
    b'1 0 0 0 0 0 0 1\\n'
    """
    text = np.take(_TEXT_OF_BYTE, packed, axis=0).reshape(len(packed), -1)
    text[:, -1] = ord("\n")
    return text


def _text_of_byte() -> UInt8[np.ndarray, "256 16"]:
    """The text of each byte's eight pixels, each followed by a space."""
    text = np.full((256, 16), ord(" "), dtype=np.uint8)
    text[:, ::2] = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1) + ord("0")
    return text


_TEXT_OF_BYTE = _text_of_byte()
