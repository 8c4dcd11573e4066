"""numpy's files, whole and damaged: whatever is wrong, one sentence and no large allocation."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from helpers.own_tables import write
from jsa.data.arrays import read_npy, read_npz
from jsa.errors import DataError

VALUES = np.arange(60, dtype=np.uint8).reshape(6, 10)
Read = Callable[[Path], object]


def npy(values: np.ndarray = VALUES) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def lying(shape: tuple[int, ...]) -> bytes:
    """An array whose header announces other than the 60 bytes that follow."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return stream.getvalue() + bytes(60)


def packed(content: bytes, method: int = zipfile.ZIP_STORED, megabytes: int = 0) -> bytes:
    """An archive that holds the array ``a``, with so many millions of zeros behind its beginning."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method, compresslevel=1) as archive, archive.open("a.npy", "w") as array:
        for part in (content, *[bytes(1_000_000)] * megabytes):
            array.write(part)
    return stream.getvalue()


def changed(content: bytes, place: int, new: bytes) -> bytes:
    return content[:place] + new + content[place + len(new) :]


def refused(read: Read, path: Path, content: bytes, sentence: str, most: int | None = None) -> None:
    """A file is refused with this sentence, and with so many bytes allocated on the way at the most."""
    write(path, content)
    if most is not None:
        tracemalloc.start()
    try:
        with pytest.raises(DataError, match=sentence):
            read(path)
        assert most is None or tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("values", [VALUES, np.asfortranarray(VALUES), VALUES.astype(">i4"), VALUES / 4, VALUES > 3])
def test_whole_files_are_read(tmp_path: Path, values: np.ndarray) -> None:
    assert np.array_equal(read_npy(write(tmp_path / "it.npy", npy(values))), values)
    arrays = read_npz(write(tmp_path / "it.npz", npz(a=values, b=VALUES)))
    assert set(arrays) == {"a", "b"}
    assert np.array_equal(arrays["a"], values)


def test_uncompressed_archives_are_read(tmp_path: Path) -> None:
    assert np.array_equal(read_npz(write(tmp_path / "it.npz", packed(npy())))["a"], VALUES)


def test_a_file_cut_anywhere_is_one_sentence(tmp_path: Path) -> None:
    whole, archive = npy(), npz(train=VALUES, test=VALUES)
    for length in range(len(whole)):
        refused(read_npy, tmp_path / "it.npy", whole[:length], r"it\.npy")
    for length in range(0, len(archive), 3):
        refused(read_npz, tmp_path / "it.npz", archive[:length], r"it\.npz is not a whole \.npz file")


@pytest.mark.parametrize(("whole", "read"), [(npy(), read_npy), (npz(a=VALUES), read_npz)], ids=["npy", "npz"])
def test_no_flipped_byte_leads_to_another_error(tmp_path: Path, whole: bytes, read: Read) -> None:
    refusals = 0
    for position in range(len(whole)):
        for flip in (0x01, 0xFF):
            try:
                read(write(tmp_path / "it", changed(whole, position, bytes([whole[position] ^ flip]))))
            except DataError:
                refusals += 1
    assert refusals > len(whole) / 2


@pytest.mark.parametrize("shape", [(10**6, 10**6), (2**62, 4), (10**30, 1), (-1, 60), (-6, -10), (61,), (59,), (0, 5)])
def test_a_header_that_lies_is_refused_before_anything_is_allocated(tmp_path: Path, shape: tuple[int, ...]) -> None:
    refused(read_npy, tmp_path / "it.npy", lying(shape), r"it\.npy", most=2_000_000)
    refused(read_npz, tmp_path / "it.npz", packed(lying(shape)), r"it\.npz", most=2_000_000)


LONG_HEADER = changed(npy(), 6, bytes([2, 0]) + (4_000_000_000).to_bytes(4, "little"))
HUGE = packed(lying((10**9, 1)), zipfile.ZIP_DEFLATED)
ENCRYPTED = npz(a=VALUES)
DIRECTORY = b"PK\x01\x02"


@pytest.mark.parametrize(
    ("read", "content", "sentence", "most"),
    [
        (read_npy, LONG_HEADER, r"it is not a whole", 2_000_000),
        (
            *(read_npz, changed(HUGE, HUGE.index(DIRECTORY) + 24, (10**9 + 128).to_bytes(4, "little"))),
            *("announces more than it can hold", None),
        ),
        *(
            (read_npz, packed(npy(), method), "packed in a way that numpy does not use: save it with", None)
            for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
        ),
        (
            *(read_npz, changed(changed(ENCRYPTED, 6, b"\1"), ENCRYPTED.index(DIRECTORY) + 8, b"\1")),
            *(r"is not a whole \.npz file \(.*encrypted", None),
        ),
        *((read, b"hello, this is a text", "is not a whole", None) for read in (read_npy, read_npz)),
    ],
)
def test_other_content_is_refused(tmp_path: Path, read: Read, content: bytes, sentence: str, most: int | None) -> None:
    refused(read, tmp_path / "it", content, sentence, most)


def test_an_archive_that_swells_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    content = packed(lying((300_000_000, 1)), zipfile.ZIP_DEFLATED, megabytes=300)
    sentence = r"unpacks to 300000\d+ bytes, more than 100 times its size: if that is"
    refused(read_npz, tmp_path / "it.npz", content, sentence, most=4_000_000)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "it.npy", np.array([[{}, 1]], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="contains Python objects, which are never read"):
        read_npy(tmp_path / "it.npy")


@pytest.mark.parametrize("read", [read_npy, read_npz])
def test_what_is_no_file_is_one_sentence(tmp_path: Path, read: Read) -> None:
    with pytest.raises(DataError, match=r"nowhere.npz cannot be read: No such file"):
        read(tmp_path / "nowhere.npz")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read(tmp_path)
