"""IDX files, whole and damaged, and copies of published files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.published_images import idx, published
from jsa.data.images import parse_idx
from jsa.data.published_files import read_copy
from jsa.errors import DataError

IMAGES = idx(np.arange(6).reshape(2, 1, 3))


def test_images_are_read_in_their_shape() -> None:
    assert parse_idx(IMAGES, 3, "it").tolist() == [[[0, 1, 2]], [[3, 4, 5]]]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "it is not an IDX file"),
        (b"\0\0\x08\x01" + IMAGES[4:], "starts with the bytes '00 00 08 01'"),
        (b"\0\0\x0d\x03" + IMAGES[4:], "is not an IDX file of unsigned bytes in 3 dimension"),
        (b"PK\x03\x04" + IMAGES[4:], "is not an IDX file"),
        (IMAGES[:10], "ends within its header"),
        (IMAGES[:-1], "announces an array of 2 x 1 x 3 bytes and 5 follow"),
        (IMAGES + b"\0", "and 7 follow"),
        (IMAGES[:4] + b"\xff" * 12 + b"\0" * 6, "announces an array of 4294967295 x 4294967295 x 4294967295"),
    ],
)
def test_a_damaged_file_is_one_sentence(content: bytes, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        parse_idx(content, 3, "it")


def test_a_copy_of_another_size_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(IMAGES)
    file = published("images", IMAGES)
    assert read_copy(path, file, "get the file again") == IMAGES
    with path.open("wb") as stream:
        stream.truncate(1 << 40)  # a hole, which takes no place on the disk
    with pytest.raises(DataError, match=f"for it has {1 << 40} bytes instead of 22: get the file again"):
        read_copy(path, file, "get the file again")
    with pytest.raises(DataError, match="nowhere cannot be read: No such file"):
        read_copy(tmp_path / "nowhere", file, "get the file again")
