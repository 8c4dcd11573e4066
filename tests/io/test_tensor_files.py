"""Tensor files: what is written comes back, and anything else is recognized."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.damage import Damage, flipped, kept, largest_file, untouched
from jsa.errors import CheckpointError
from jsa.io.tensor_files import ENTRY, content_checksum, load_tensors, save_tensors

TENSORS = {
    "weights": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "transposed": torch.arange(6, dtype=torch.float64).reshape(2, 3).T,
    "number": torch.tensor(7),
    "empty": torch.zeros(0, 3),
    "without memory": torch.from_numpy(np.zeros((0, 3), np.uint8)),
    "bits": torch.tensor([True, False]),
    "half": torch.ones(3, dtype=torch.bfloat16),
}
NOTES: dict[str, object] = {"epoch": 4, "valid_nll": 100.5, "stage": "two", "order": [1, 2], "none": None}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "state.safetensors"
    save_tensors(path, TENSORS, NOTES)
    return path


def with_header(change: Callable[[dict[str, Any]], object]) -> Damage:
    """With another header, and the bytes of the tensors as they were."""

    def rewrite(path: Path) -> None:
        content = path.read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        change(header)
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])

    return rewrite


def promising(length: int) -> Damage:
    """With a header that is said to be so long."""
    return lambda path: path.write_bytes(struct.pack("<Q", length) + path.read_bytes()[8:])


def promising_rows(rows: int) -> Damage:
    entry = {"dtype": "F32", "shape": [rows, 3], "data_offsets": [0, 12 * rows]}
    return with_header(lambda header: header.update(weights=entry))


def renamed(name: str) -> Damage:
    return with_header(lambda header: header.update(other=header.pop(name)))


def with_metadata(metadata: dict[str, str] | None) -> Damage:
    """Another program's file."""
    return lambda path: save_file({"a": torch.ones(2)}, path, metadata)


def with_other_notes(header: dict[str, Any]) -> None:
    entry = json.loads(header["__metadata__"][ENTRY])
    header["__metadata__"] = {ENTRY: json.dumps({**entry, "notes": json.dumps({"epoch": 5})})}


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
    for place in range(path.stat().st_size):
        flipped(place, place % 8)(path)
        try:
            tensors, notes = load_tensors(path)
        except CheckpointError as error:
            assert str(path) in str(error)  # noqa: PT017
        else:  # a flip that changes nothing that is read, such as a space of the header to another white space
            assert notes == NOTES
            assert all(torch.equal(tensors[name], tensor) for name, tensor in TENSORS.items())
        flipped(place, place % 8)(path)


DAMAGED = r"state\.safetensors is damaged .*: use another copy, or make it again"
NO_CHECKSUM = "has no checksum, so it was not written by this version of jsa: make it"
METADATA: tuple[dict[str, str] | None, ...] = (None, {}, {ENTRY: '{"format": 1}'}, {ENTRY: "[]"}, {ENTRY: "7"})
PROMISES = (1 << 20, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        *((kept(count), DAMAGED) for count in (0, 4, 8, 100, -1)),
        *((renamed(name), "does not match its checksum") for name in ("weights", "bits")),
        (with_header(with_other_notes), "does not match its checksum"),
        *((with_metadata(metadata), NO_CHECKSUM) for metadata in METADATA),
        (with_metadata({ENTRY: "[" * 100_000}), "is damaged"),
        *((damage(promised), DAMAGED) for damage in (promising, promising_rows) for promised in PROMISES),
        (Path.unlink, "there is no file"),
    ],
)
def test_a_damaged_file_is_refused(path: Path, damage: Damage, sentence: str) -> None:
    damage(path)
    with untouched(path.parent), pytest.raises(CheckpointError, match=sentence):
        load_tensors(path)


def test_every_part_is_under_the_checksum() -> None:
    ones = torch.ones(2, 2)
    others = (
        {"b": ones},
        {"a": ones, "b": ones},
        {"a": ones.reshape(4)},
        {"a": ones.view(torch.int32)},
        {"a": 2 * ones},
    )
    different = {content_checksum(tensors, "{}") for tensors in ({"a": ones}, *others, {})}
    assert len(different | {content_checksum({"a": ones}, '{"epoch": 1}')}) == 8


def test_a_folder_is_no_tensors(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no file"):
        load_tensors(tmp_path)


def test_a_write_that_fails_leaves_the_earlier_file(path: Path) -> None:
    sentence = r"could not be written .*File too large.*an earlier file"
    with untouched(path.parent), largest_file(4096), pytest.raises(CheckpointError, match=sentence):
        save_tensors(path, {"large": torch.zeros(10_000)}, {})
