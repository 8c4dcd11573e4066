"""Fashion-MNIST, on small files made up in its format."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from jsa.data import load
from jsa.data.downloads import PublishedFile, PublishedPictures
from jsa.data.mnist import DEBIAN_FOLDER, fashion_mnist
from jsa.errors import DataError

GENERATOR = np.random.default_rng(0)
TRAIN = GENERATOR.integers(0, 256, (30, 28, 28))
TEST = GENERATOR.integers(0, 256, (6, 28, 28))


def content_of(values: np.ndarray) -> bytes:
    shape = np.array(values.shape, dtype=">u4").tobytes()
    return bytes([0, 0, 8, values.ndim]) + shape + values.astype(np.uint8).tobytes()


CONTENTS = {
    "train-images-idx3-ubyte": content_of(TRAIN),
    "train-labels-idx1-ubyte": content_of(np.arange(30)),
    "t10k-images-idx3-ubyte": content_of(TEST),
    "t10k-labels-idx1-ubyte": content_of(np.arange(6)),
}
PUBLISHED = PublishedPictures(
    *(PublishedFile(name, len(content), hashlib.sha256(content).hexdigest()) for name, content in CONTENTS.items())
)


def put(folder: Path, *, packed: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in CONTENTS.items():
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return folder


def read(data_dir: Path | None, system_folder: Path = Path("/nonexistent")):
    return fashion_mnist(data_dir, published=PUBLISHED, train_rows=20, system_folder=system_folder)


@pytest.mark.parametrize("packed", [False, True])
def test_the_first_rows_are_trained_on_and_the_rest_validate(tmp_path, packed):
    splits = read(put(tmp_path, packed=packed))
    assert splits.name == "fashion-mnist"
    assert splits.image_shape == (28, 28)
    assert splits.train.labels.tolist() == list(range(20))
    assert splits.valid.labels.tolist() == list(range(20, 30))
    assert splits.test.labels.tolist() == list(range(6))
    on = splits.train.rows.numpy() == 1
    gray = TRAIN[:20].reshape(20, 784)
    assert on[gray == 255].all()
    assert not on[gray == 0].any()
    assert abs(on.mean() - gray.mean() / 255) < 0.02


def test_the_draw_is_fixed(tmp_path):
    folder = put(tmp_path)
    assert read(folder).train.rows.tolist() == read(folder).train.rows.tolist()


def test_the_folder_is_found_by_flag_variable_or_system(tmp_path, monkeypatch):
    folder = put(tmp_path / "somewhere")
    assert len(read(folder).test) == 6
    assert len(read(None, system_folder=folder).test) == 6
    monkeypatch.setenv("JSA_DATA_DIR", str(folder))
    assert len(read(None).test) == 6
    assert len(read(tmp_path / "wrong").test) == 6


def test_a_subfolder_of_its_name_comes_before_files_of_mnist(tmp_path):
    put(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(content_of(np.zeros(30)))
    put(tmp_path / "fashion-mnist")
    assert read(tmp_path).train.labels.tolist() == list(range(20))


def test_other_files_of_the_same_names_are_refused(tmp_path):
    put(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(content_of(np.zeros(30)))
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte is not the published .* for its sha256"):
        read(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(content_of(np.zeros(3)))
    with pytest.raises(DataError, match="for it has 11 bytes instead of 38"):
        read(tmp_path)


def test_missing_files_are_named_with_the_ways_to_get_them(tmp_path):
    put(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError) as caught:
        read(tmp_path)
    for part in ("t10k-labels-idx1-ubyte", str(tmp_path), "dataset-fashion-mnist", "--data-dir", "JSA_DATA_DIR"):
        assert part in str(caught.value)


def test_the_real_files_where_they_are_installed():
    if not DEBIAN_FOLDER.is_dir():
        pytest.skip("Debian's package dataset-fashion-mnist is not installed")
    splits = load("fashion-mnist")
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (50_000, 10_000, 10_000)
    drawn = hashlib.sha256(np.packbits(splits.train.rows.numpy(), axis=1)).hexdigest()
    assert drawn == "5f535c188553f09696b269992a6051b9eb824ee3362bc5c4b307bd7b1724fc3e"
