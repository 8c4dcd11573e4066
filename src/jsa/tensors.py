"""Tensors to and from safetensors files, which cannot run code when they are opened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from jsa.errors import CheckpointError
from jsa.files import replacing

NOTES = "jsa"


def save_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, object]) -> None:
    """Writes tensors with notes beside them, whole or not at all; equal content gives equal bytes."""
    # All notes are one entry, because the format keeps no order among several.
    metadata = {NOTES: json.dumps(notes, sort_keys=True)}
    with replacing(path) as temporary:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, temporary, metadata)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, object]]:
    """The tensors and the notes of a file."""
    try:
        with safe_open(path, framework="pt") as file:
            notes = json.loads((file.metadata() or {}).get(NOTES, "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged ({error}): use or make another one") from error
    return tensors, notes if isinstance(notes, dict) else {}
