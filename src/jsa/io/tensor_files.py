"""Tensors in safetensors files, which cannot run code when they are opened.

Each file carries a SHA-256 of all its content, which is verified whenever the file is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from jaxtyping import UInt8
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save, save_file
from torch import Tensor

from jsa.errors import CheckpointError, shortened
from jsa.io.atomic_files import flush, replacing

ENTRY = "jsa"
"""The one metadata entry beside the tensors, because the format keeps no order among several."""


def save_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, object]) -> None:
    """Write tensors and notes to a file, whole or not at all; equal content gives equal bytes.

    Args:
        path: The file.
        tensors: The tensors by name, on any device.
        notes: Further values that JSON can hold.
    """
    plain = _apart({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    written = json.dumps(notes, sort_keys=True)
    checksum = content_checksum(plain, written)
    # The checksum is of the text of the notes, so that what is verified is what is read.
    entry = json.dumps({"checksum": checksum, "notes": written}, sort_keys=True)
    with replacing(path) as temporary:
        try:
            save_file(plain, temporary, {ENTRY: entry})
            flush(temporary)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(
                f"{path} could not be written ({error}): free some space; an earlier file of that name is kept"
            ) from error


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Clone tensors that share memory: parameters that two networks share are written twice."""
    found: dict[str, Tensor] = {}
    taken: set[int] = set()
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        found[name] = tensor.clone() if place in taken else tensor
        taken.add(place)
    return found


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, object]]:
    """Read the tensors and notes of a file of ``save_tensors`` and verify its checksum."""
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}: check the name, or make the file again")
    try:
        # The parser maps the file and compares the header with the file size before anything is allocated.
        with safe_open(path, framework="pt") as file:
            entry = json.loads((file.metadata() or {}).get(ENTRY, "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if not isinstance(entry, dict) or not isinstance(entry.get("checksum"), str):
            raise CheckpointError(
                f"{path} has no checksum, so it was not written by this version of jsa: make it again with this one"
            )
        notes = entry.get("notes")
        if not isinstance(notes, str) or content_checksum(tensors, notes) != entry["checksum"]:
            raise CheckpointError(
                f"{path} is damaged: its content does not match its checksum. Use another copy, or make it again"
            )
        return tensors, dict(json.loads(notes))
    except CheckpointError:
        raise
    except Exception as error:  # parser, file system and JSON raise many types without a common base
        raise CheckpointError(f"{path} is damaged ({shortened(error)}): use another copy, or make it again") from error


def packed(tensors: Mapping[str, Tensor]) -> UInt8[Tensor, " bytes"]:
    """Return tensors as one tensor of bytes, which every way of saving a ``state_dict`` can hold.

    >>> unpacked(packed({"rows": torch.arange(3)}))
    {'rows': tensor([0, 1, 2])}
    """
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return torch.frombuffer(bytearray(save(plain)), dtype=torch.uint8)


def unpacked(content: Tensor) -> dict[str, Tensor]:
    """Return the tensors that ``packed`` made one of."""
    try:
        return load(content.cpu().numpy().tobytes())
    except (SafetensorError, RuntimeError, TypeError) as error:
        raise CheckpointError(f"these bytes hold no tensors ({shortened(error)}): use another copy") from error


def content_checksum(tensors: Mapping[str, Tensor], notes: str) -> str:
    """Return the hexadecimal SHA-256 of the names, types, shapes and bytes of tensors and of the text of the notes.

    Each part is preceded by its length, so that different contents are different sequences of bytes.

    >>> ones = torch.ones(2)
    >>> content_checksum({"a": ones}, "{}") == content_checksum({"b": ones}, "{}")
    False
    """
    digest = hashlib.sha256()
    described = notes.encode()
    digest.update(f"{len(described)} {len(tensors)}\n".encode() + described)
    for name in sorted(tensors):
        tensor = tensors[name]
        title = json.dumps([name, str(tensor.dtype), list(tensor.shape)])
        digest.update(f"{len(title)}\n{title}".encode())
        if not tensor.numel():
            continue
        # A view of the tensor's own bytes, without a copy.
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
