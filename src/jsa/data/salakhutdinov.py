"""The static binarization of MNIST by Salakhutdinov and Murray (2008), in Larochelle's split.

Many published results use exactly these rows, so the rows are verified by a checksum whatever file they come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8

from jsa.data.arrays import read_npz
from jsa.data.catalog import ENVIRONMENT_VARIABLE, data_folders, searched
from jsa.data.dataset import IndexedDataset
from jsa.data.published_files import AMAT_LINE, IMAGE_PIXELS, SALAKHUTDINOV, PublishedBits, read_copy, verify
from jsa.data.schema import Schema
from jsa.data.splits import Splits
from jsa.errors import DataError

PACKED_NAME = "binarized_mnist_static.npz"
_REMEDY = "remove the file and run `jsa data fetch`"

Parts = dict[str, UInt8[np.ndarray, "rows pixels"]]


def mnist_salakhutdinov(data_dir: Path | None, *, published: Mapping[str, PublishedBits] = SALAKHUTDINOV) -> Splits:
    """Return the three splits, from the packed file if there is one, else from the three .amat files."""
    schema = Schema.of(IMAGE_PIXELS, image_shape=(28, 28))
    rows = _read(data_dir, published)
    parts = {name: IndexedDataset(torch.from_numpy(bits), schema) for name, bits in rows.items()}
    return Splits("mnist-salakhutdinov", parts["train"], parts["valid"], parts["test"])


def _read(data_dir: Path | None, published: Mapping[str, PublishedBits]) -> Parts:
    folders = data_folders(data_dir)
    for folder in folders:
        if (folder / PACKED_NAME).is_file():
            return read_packed(folder / PACKED_NAME, published)
        if all((folder / part.text.name).is_file() for part in published.values()):
            return read_amat(folder, published)
    wanted = ", ".join(part.text.name for part in published.values())
    raise DataError(
        f"mnist-salakhutdinov needs {PACKED_NAME}, or {wanted}, but {searched(folders)}: "
        f"get the files with `jsa data fetch`, or give their folder by --data-dir or {ENVIRONMENT_VARIABLE}"
    )


def read_amat(folder: Path, published: Mapping[str, PublishedBits]) -> Parts:
    """Return the rows of the original text files.

    The text needs no parser: if its checksum is correct, every pixel is at a known position.
    """
    paths = {name: folder / part.text.name for name, part in published.items()}
    texts = {name: read_copy(path, published[name].text, _REMEDY) for name, path in paths.items()}
    verify(((published[name].text, str(paths[name]), text) for name, text in texts.items()), _REMEDY)
    return {name: np.frombuffer(text, np.uint8).reshape(-1, AMAT_LINE)[:, ::2] & 1 for name, text in texts.items()}


def read_packed(path: Path, published: Mapping[str, PublishedBits]) -> Parts:
    """Return the rows of a file with eight pixels per byte and arrays `train`, `valid` and `test`."""
    arrays = read_npz(path)
    rows = {}
    for name, part in published.items():
        shape = (part.text.size // AMAT_LINE, IMAGE_PIXELS // 8)
        packed = arrays.get(name)
        if packed is None or packed.dtype != np.uint8 or packed.shape != shape:
            raise DataError(f"{path} does not hold the array '{name}' of {shape[0]} x {shape[1]} bytes: {_REMEDY}")
        digest = sha256(packed.tobytes()).hexdigest()
        if digest != part.packed_sha256:
            raise DataError(
                f"{path} does not hold the published {part.text.name}, for the sha256 of the array '{name}' is "
                f"{digest}: {_REMEDY}"
            )
        rows[name] = np.unpackbits(packed, axis=1)
    return rows
