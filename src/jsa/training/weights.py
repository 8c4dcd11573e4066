"""Save and load the weights of a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import nn

from jsa.errors import CheckpointError
from jsa.io.tensor_files import load_tensors, save_tensors
from jsa.io.weights import check_format, finite_weights, take_weights

FORMAT = 1


def save_weights(model: nn.Module, path: Path, notes: Mapping[str, object]) -> None:
    """Write the model's weights, whole or not at all; weights that are not finite are refused.

    Args:
        model: The model.
        path: Where to write.
        notes: Values to keep beside the weights, for instance the epoch.
    """
    save_tensors(path, finite_weights(model), {"format": FORMAT, **notes})


def load_weights(model: nn.Module, path: Path) -> dict[str, object]:
    """Load weights that ``save_weights`` wrote for the same model, and return their notes."""
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}: the run has not come to its first validation")
    tensors, notes = load_tensors(path)
    check_format(path, notes, FORMAT)
    take_weights(model, tensors, path)
    return notes
