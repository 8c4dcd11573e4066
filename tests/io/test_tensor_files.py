"""Tensor files: what is written comes back, and anything else is recognized."""

import json
import resource
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from jsa.errors import CheckpointError
from jsa.io.tensor_files import ENTRY, content_checksum, load_tensors, save_tensors

TENSORS = {
    "weights": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "transposed": torch.arange(6, dtype=torch.float64).reshape(2, 3).T,
    "number": torch.tensor(7),
    "empty": torch.zeros(0, 3),
    "bits": torch.tensor([True, False]),
    "half": torch.ones(3, dtype=torch.bfloat16),
}
NOTES: dict[str, object] = {"epoch": 4, "valid_nll": 100.5, "stage": "two", "order": [1, 2], "none": None}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "state.safetensors"
    save_tensors(path, TENSORS, NOTES)
    return path


def header_of(content: bytes) -> dict[str, object]:
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length])


def with_header(content: bytes, header: object) -> bytes:
    (length,) = struct.unpack("<Q", content[:8])
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def test_tensors_and_notes_come_back(path: Path) -> None:
    tensors, notes = load_tensors(path)
    assert notes == NOTES
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


def test_tensors_that_share_memory_are_written_each(tmp_path: Path) -> None:
    path, shared = tmp_path / "shared.safetensors", torch.arange(6.0)
    save_tensors(path, {"p": shared, "q": shared, "part": shared[2:4], "turned": shared.view(2, 3).t()}, {})
    tensors, _ = load_tensors(path)
    assert torch.equal(tensors["p"], tensors["q"])
    assert tensors["part"].tolist() == [2.0, 3.0]
    assert torch.equal(tensors["turned"], shared.view(2, 3).t())


def test_another_program_can_read_the_tensors(path: Path) -> None:
    assert torch.equal(load_file(path)["weights"], TENSORS["weights"])


def test_equal_content_is_equal_bytes(tmp_path: Path, path: Path) -> None:
    other = tmp_path / "other.safetensors"
    save_tensors(other, dict(reversed(TENSORS.items())), dict(reversed(NOTES.items())))
    assert other.read_bytes() == path.read_bytes()


def test_every_flipped_bit_is_recognized(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for place in range(len(content)):
        content[place] ^= 1 << place % 8
        path.write_bytes(content)
        content[place] ^= 1 << place % 8
        try:
            tensors, notes = load_tensors(path)
        except CheckpointError as error:
            assert str(path) in str(error)  # noqa: PT017
        else:  # a flip that changes nothing that is read, such as a space of the header to another white space
            assert notes == NOTES
            assert all(torch.equal(tensors[name], tensor) for name, tensor in TENSORS.items())


@pytest.mark.parametrize("keep", [0, 4, 8, 100, -1])
def test_a_truncated_file_is_recognized(path: Path, keep: int) -> None:
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match=r"state\.safetensors is damaged .*: use another copy, or make it again"):
        load_tensors(path)


def test_every_part_is_under_the_checksum() -> None:
    def checksum(tensors: dict[str, Tensor], notes: str = "{}") -> str:
        return content_checksum(tensors, notes)

    ones = torch.ones(2, 2)
    different = [
        checksum({"a": ones}),
        checksum({"b": ones}),
        checksum({"a": ones, "b": ones}),
        checksum({"a": ones.reshape(4)}),
        checksum({"a": ones.view(torch.int32)}),
        checksum({"a": 2 * ones}),
        checksum({"a": ones}, '{"epoch": 1}'),
        checksum({}),
    ]
    assert len(set(different)) == len(different)


@pytest.mark.parametrize("name", ["weights", "bits"])
def test_an_exchanged_name_is_recognized(path: Path, name: str) -> None:
    content = path.read_bytes()
    header = header_of(content)
    header["other"] = header.pop(name)
    path.write_bytes(with_header(content, header))
    with pytest.raises(CheckpointError, match="does not match its checksum"):
        load_tensors(path)


def test_changed_notes_are_recognized(path: Path) -> None:
    content = path.read_bytes()
    header = header_of(content)
    entry = json.loads(header["__metadata__"][ENTRY])  # type: ignore[index]
    entry["notes"] = json.dumps({"epoch": 5})
    header["__metadata__"] = {ENTRY: json.dumps(entry)}
    path.write_bytes(with_header(content, header))
    with pytest.raises(CheckpointError, match="does not match its checksum"):
        load_tensors(path)


@pytest.mark.parametrize("metadata", [None, {}, {ENTRY: '{"format": 1}'}, {ENTRY: "[]"}, {ENTRY: "7"}])
def test_a_file_without_checksum_is_refused(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    path = tmp_path / "old.safetensors"
    save_file({"a": torch.ones(2)}, path, metadata)
    with pytest.raises(CheckpointError, match="has no checksum, so it was not written by this version of jsa: make it"):
        load_tensors(path)


def test_a_header_nested_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.safetensors"
    save_file({"a": torch.ones(2)}, path, {ENTRY: "[" * 100_000})
    with pytest.raises(CheckpointError, match="is damaged"):
        load_tensors(path)


@pytest.mark.parametrize("promised", [1 << 20, 1 << 40, (1 << 63) - 1, (1 << 64) - 1])
def test_a_header_that_promises_more_than_the_file_is_refused(path: Path, promised: int) -> None:
    content = path.read_bytes()
    path.write_bytes(struct.pack("<Q", promised) + content[8:])
    with pytest.raises(CheckpointError, match="is damaged"):
        load_tensors(path)
    header = header_of(content)
    header["weights"] = {"dtype": "F32", "shape": [promised, 3], "data_offsets": [0, 12 * promised]}
    path.write_bytes(with_header(content, header))
    with pytest.raises(CheckpointError, match="is damaged"):
        load_tensors(path)


def test_a_missing_file_and_a_folder_are_no_tensors(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(CheckpointError, match="there is no file"):
            load_tensors(path)


def test_a_write_that_fails_leaves_the_earlier_file(path: Path) -> None:
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(CheckpointError, match=r"could not be written .*File too large.*an earlier file"):
            save_tensors(path, {"large": torch.zeros(10_000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_tensor_without_elements_keeps_its_shape(tmp_path: Path) -> None:
    path = tmp_path / "empty.safetensors"
    save_tensors(path, {"none": torch.from_numpy(np.zeros((0, 3), np.uint8))}, {})
    tensors, _ = load_tensors(path)
    assert tensors["none"].shape == (0, 3)
