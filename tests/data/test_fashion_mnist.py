"""Fashion-MNIST, on small files made up in its format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.published_images import bits_of, contents_of, idx, labels_of, published_images, put, sha256_of_bits
from jsa.data import Splits, load
from jsa.data.fashion_mnist import fashion_mnist
from jsa.errors import DataError

GENERATOR = np.random.default_rng(0)
TRAIN = GENERATOR.integers(0, 256, (30, 28, 28))
CONTENTS = contents_of(TRAIN, GENERATOR.integers(0, 256, (6, 28, 28)))
PUBLISHED = published_images(CONTENTS)


def read(data_dir: Path | None) -> Splits:
    return fashion_mnist(data_dir, published=PUBLISHED, train_rows=20)


def test_the_first_rows_are_trained_on_and_the_rest_validate(tmp_path: Path) -> None:
    splits = read(put(tmp_path, CONTENTS))
    assert (splits.name, splits.schema.image_shape) == ("fashion-mnist", (28, 28))
    assert labels_of(splits) == [list(range(20)), list(range(20, 30)), list(range(6))]
    on, gray = bits_of(splits)[0] == 1, TRAIN[:20].reshape(20, 784)
    assert on[gray == 255].all()
    assert not on[gray == 0].any()
    assert abs(on.mean() - gray.mean() / 255) < 0.02
    assert all(map(np.array_equal, bits_of(read(tmp_path)), bits_of(splits)))


def test_the_folder_is_found_by_flag_or_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JSA_DATA_DIR", str(put(tmp_path / "somewhere", CONTENTS)))
    assert len(read(None).test) == len(read(tmp_path / "wrong").test) == 6


def test_a_subfolder_of_its_name_comes_before_files_of_mnist(tmp_path: Path) -> None:
    put(tmp_path, {**CONTENTS, "train-labels-idx1-ubyte": idx(np.zeros(30))})
    put(tmp_path / "fashion-mnist", CONTENTS)
    assert labels_of(read(tmp_path))[0] == list(range(20))


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (30, r"train-labels-idx1-ubyte is not the published .* for its sha256"),
        (3, "for it has 11 bytes instead of 38"),
    ],
)
def test_other_files_of_the_same_names_are_refused(tmp_path: Path, labels: int, sentence: str) -> None:
    put(tmp_path, {**CONTENTS, "train-labels-idx1-ubyte": idx(np.zeros(labels))})
    with pytest.raises(DataError, match=sentence):
        read(tmp_path)


def test_missing_files_are_named_with_the_ways_to_give_them(tmp_path: Path) -> None:
    (put(tmp_path, CONTENTS) / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError) as caught:
        read(tmp_path)
    for part in ("t10k-labels-idx1-ubyte", str(tmp_path), "a folder fashion-mnist", "--data-dir", "JSA_DATA_DIR"):
        assert part in str(caught.value)


def test_the_real_files_where_they_are(data_folder: Path) -> None:
    if not (data_folder / "fashion-mnist").is_dir():
        pytest.skip("the files of Fashion-MNIST are not in ../shared/data/fashion-mnist")
    splits = load("fashion-mnist", data_dir=data_folder)
    assert [len(part) for part in splits.parts.values()] == [50_000, 10_000, 10_000]
    assert sha256_of_bits(bits_of(splits)[0]) == "5f535c188553f09696b269992a6051b9eb824ee3362bc5c4b307bd7b1724fc3e"
