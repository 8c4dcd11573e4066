"""IDX files, whole and damaged."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from jsa.data.downloads import PublishedFile
from jsa.data.idx import parse_idx, read_idx_copy
from jsa.errors import DataError

PICTURES = bytes([0, 0, 8, 3]) + np.array([2, 1, 3], dtype=">u4").tobytes() + bytes(range(6))
PUBLISHED = PublishedFile("images", len(PICTURES), "the checksum is verified elsewhere")


def read(path: Path) -> bytes:
    return read_idx_copy(path, PUBLISHED, "get the file again")


def test_pictures_are_read_in_their_shape():
    assert parse_idx(PICTURES, 3, "it").tolist() == [[[0, 1, 2]], [[3, 4, 5]]]


@pytest.mark.parametrize("name", ["plain", "packed.gz"])
def test_plain_and_packed_files_hold_the_same(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(PICTURES, mtime=0) if name.endswith(".gz") else PICTURES)
    assert read(path) == PICTURES


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "it is not an IDX file"),
        (b"\0\0\x08\x01" + PICTURES[4:], "starts with the bytes '00 00 08 01'"),
        (b"\0\0\x0d\x03" + PICTURES[4:], "is not an IDX file of unsigned bytes in 3 dimension"),
        (b"PK\x03\x04" + PICTURES[4:], "is not an IDX file"),
        (PICTURES[:10], "ends within its header"),
        (PICTURES[:-1], "announces an array of 2 x 1 x 3 bytes and 5 follow"),
        (PICTURES + b"\0", "and 7 follow"),
        (PICTURES[:4] + b"\xff" * 12 + b"\0" * 6, "announces an array of 4294967295 x 4294967295 x 4294967295"),
    ],
)
def test_a_damaged_file_is_one_sentence(content, sentence):
    with pytest.raises(DataError, match=sentence):
        parse_idx(content, 3, "it")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (gzip.compress(PICTURES, mtime=0)[:-9], "ends too early"),
        (gzip.compress(PICTURES, mtime=0)[:5], "ends too early"),
        (b"", "ends too early"),
        (PICTURES, "is not a whole gzip file"),
        (gzip.compress(PICTURES, mtime=0)[:-8] + b"\0" * 8, "is not a whole gzip file"),
    ],
)
def test_a_damaged_packed_file_is_one_sentence(tmp_path, content, sentence):
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"images.gz {sentence}.*get the file again"):
        read(path)


def test_a_packed_file_that_swells_is_refused(tmp_path):
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(bytes(100_000_000), 1))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="unpacks to more than the 22 bytes of images: get the file again"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_a_file_that_is_far_too_long_is_not_read(tmp_path):
    path = tmp_path / "images"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)  # a hole, which takes no place on the disk
    with pytest.raises(DataError, match=f"for it has {1 << 40} bytes instead of 22: get the file again"):
        read(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="nowhere cannot be read: No such file"):
        read(tmp_path / "nowhere")
