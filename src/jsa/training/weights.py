"""Save and load the weights of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import torch
from torch import nn

from jsa.errors import CheckpointError, NumericalError, shortened
from jsa.io.tensor_files import load_tensors, save_tensors

FORMAT = 1


def save_weights(model: nn.Module, path: Path, notes: Mapping[str, object]) -> None:
    """Write the model's weights, whole or not at all; weights that are not finite are refused.

    Args:
        model: The model.
        path: Where to write.
        notes: Values to keep beside the weights, for instance the epoch.
    """
    tensors = model.state_dict()
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise NumericalError(f"the weights {name} are not finite")
    save_tensors(path, tensors, {"format": FORMAT, **notes})


def load_weights(model: nn.Module, path: Path) -> dict[str, object]:
    """Load weights that ``save_weights`` wrote for the same model, and return their notes."""
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}: the run has not come to its first validation")
    tensors, notes = load_tensors(path)
    check_format(path, notes, FORMAT)
    check_shapes(model, tensors, path)
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise CheckpointError(f"{path} holds weights {name} that are not finite: use another checkpoint")
    model.load_state_dict(tensors)
    return notes


def weights_of(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield what a ``state_dict`` holds but for extra state such as chains, which takes time and, on disk, is a commit.

    >>> [name for name, _ in weights_of(nn.BatchNorm1d(3, affine=False))]
    ['running_mean', 'running_var', 'num_batches_tracked']
    """
    for where, part in module.named_modules(remove_duplicate=False):
        start = f"{where}." if where else ""
        for name, tensor in chain(part._parameters.items(), part._buffers.items()):
            if tensor is not None and name not in part._non_persistent_buffers_set:
                yield f"{start}{name}", tensor


def check_format(
    path: Path, notes: Mapping[str, object], expected: int, earlier: Mapping[int, str] | None = None
) -> None:
    """Refuse a file of another format.

    Args:
        path: The file.
        notes: Its notes.
        expected: The format that this version reads.
        earlier: The versions of jsa that read earlier formats.
    """
    found = notes.get("format")
    if found != expected:
        version = next((f"jsa {reader}" for number, reader in (earlier or {}).items() if number == found), None)
        raise CheckpointError(
            f"{path} has format {shortened(found)}; this version of jsa reads {expected}: use "
            f"{version or 'the version that wrote it'}, or make it again"
        )


def check_shapes(module: nn.Module, tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Refuse the weights of another model."""
    expected = {name: tuple(tensor.shape) for name, tensor in weights_of(module)}
    # Extra state, such as chains, is checked by the module that it belongs to.
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items() if not name.endswith("_extra_state")}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise CheckpointError(
                f"{path} belongs to another model: {name} is {found.get(name, 'missing')} there and "
                f"{expected.get(name, 'missing')} in this model"
            )
