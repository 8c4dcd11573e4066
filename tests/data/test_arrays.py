"""numpy's files, whole and damaged: whatever is wrong, one sentence and no large allocation."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from jsa.data.arrays import read_npy, read_npz
from jsa.errors import DataError

VALUES = np.arange(60, dtype=np.uint8).reshape(6, 10)


def npy(values: np.ndarray = VALUES) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def lying(shape: tuple[int, ...], dtype: str = "|u1") -> bytes:
    """An array whose header announces more than follows."""
    stream = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + bytes(60)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("values", [VALUES, np.asfortranarray(VALUES), VALUES.astype(">i4"), VALUES / 4, VALUES > 3])
def test_whole_files_are_read(tmp_path, values):
    assert np.array_equal(read_npy(written(tmp_path / "it.npy", npy(values))), values)
    arrays = read_npz(written(tmp_path / "it.npz", npz(a=values, b=VALUES)))
    assert set(arrays) == {"a", "b"}
    assert np.array_equal(arrays["a"], values)


def test_uncompressed_archives_are_read(tmp_path):
    np.savez(tmp_path / "it.npz", a=VALUES)
    assert np.array_equal(read_npz(tmp_path / "it.npz")["a"], VALUES)


def test_an_npy_file_cut_anywhere_is_one_sentence(tmp_path):
    whole = npy()
    for length in range(len(whole)):
        with pytest.raises(DataError, match=r"it\.npy"):
            read_npy(written(tmp_path / "it.npy", whole[:length]))


def test_an_npz_file_cut_anywhere_is_one_sentence(tmp_path):
    whole = npz(train=VALUES, test=VALUES)
    for length in range(0, len(whole), 3):
        with pytest.raises(DataError, match=r"it\.npz is not a whole \.npz file"):
            read_npz(written(tmp_path / "it.npz", whole[:length]))


@pytest.mark.parametrize(("make", "read"), [(npy, read_npy), (lambda: npz(a=VALUES), read_npz)])
def test_no_flipped_byte_leads_to_another_error(tmp_path, make, read):
    whole = make()
    refused = 0
    for position in range(len(whole)):
        for flip in (0x01, 0xFF):
            damaged = bytearray(whole)
            damaged[position] ^= flip
            try:
                read(written(tmp_path / "it", bytes(damaged)))
            except DataError:
                refused += 1
    assert refused > len(whole) / 2


@pytest.mark.parametrize("shape", [(10**6, 10**6), (2**62, 4), (10**30, 1), (-1, 60), (-6, -10), (61,), (59,), (0, 5)])
def test_a_header_that_lies_is_refused_before_anything_is_allocated(tmp_path, shape):
    path = written(tmp_path / "it.npy", lying(shape))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.npy", lying(shape))
    packed = written(tmp_path / "it.npz", stream.getvalue())
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"it\.npy"):
            read_npy(path)
        with pytest.raises(DataError, match=r"it\.npz"):
            read_npz(packed)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_a_header_that_lies_about_its_own_length_is_refused_before_anything_is_allocated(tmp_path):
    content = npy()
    long = content[:6] + bytes([2, 0]) + (4_000_000_000).to_bytes(4, "little") + content[10:]
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"it\.npy is not a whole"):
            read_npy(written(tmp_path / "it.npy", long))
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_an_archive_that_announces_more_than_it_can_hold_is_refused(tmp_path):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", lying((10**9, 1)))
    content = bytearray(stream.getvalue())
    directory = content.index(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = (10**9 + 128).to_bytes(4, "little")
    with pytest.raises(DataError, match="announces more than it can hold"):
        read_npz(written(tmp_path / "it.npz", bytes(content)))


def test_an_archive_that_swells_is_refused_before_it_is_unpacked(tmp_path):
    stream = io.BytesIO()
    values = io.BytesIO()
    header = {"descr": "|u1", "fortran_order": False, "shape": (300_000_000, 1)}
    np.lib.format.write_array_header_1_0(values, header)
    with (
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("a.npy", "w") as a,
    ):
        a.write(values.getvalue())
        for _ in range(300):
            a.write(bytes(1_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"unpacks to 300000\d+ bytes, more than 100 times its size: if that is"):
            read_npz(written(tmp_path / "it.npz", stream.getvalue()))
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing_are_refused(tmp_path, method):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("a.npy", npy())
    with pytest.raises(DataError, match="packed in a way that numpy does not use: save it with"):
        read_npz(written(tmp_path / "it.npz", stream.getvalue()))


def test_objects_are_never_unpickled(tmp_path):
    np.save(tmp_path / "it.npy", np.array([[{}, 1]], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="holds Python objects, which are never read"):
        read_npy(tmp_path / "it.npy")


@pytest.mark.parametrize("read", [read_npy, read_npz])
def test_what_is_no_such_file_is_one_sentence(tmp_path, read):
    with pytest.raises(DataError, match=r"nowhere.npz cannot be read: No such file"):
        read(tmp_path / "nowhere.npz")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read(tmp_path)
    with pytest.raises(DataError, match="is not a whole"):
        read(written(tmp_path / "it", b"hello, this is a text"))


def test_an_encrypted_archive_is_one_sentence(tmp_path):
    content = bytearray(npz(a=VALUES))
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(DataError, match=r"is not a whole \.npz file \(.*encrypted"):
        read_npz(written(tmp_path / "it.npz", bytes(content)))
