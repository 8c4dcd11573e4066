"""What is checked of the weights of a module before they are written, and after they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import torch
from torch import nn

from jsa.errors import CheckpointError, NumericalError, UsageError, shortened


def finite_weights(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return the ``state_dict`` of a module; numbers that are not finite, and what is no tensor, are refused."""
    tensors = module.state_dict()
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise UsageError(
                f"{name} is of type {type(tensor).__name__}, which a file of tensors cannot hold: return a tensor from "
                "get_extra_state"
            )
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise NumericalError(f"the weights {name} are not finite")
    return tensors


def take_weights(module: nn.Module, tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Give a module the weights of a file; those of another model or not finite are refused."""
    check_shapes(module, tensors, path)
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise CheckpointError(f"{path} holds weights {name} that are not finite: use another checkpoint")
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:  # extra state that only the one of them has
        raise CheckpointError(f"{path} belongs to another model ({shortened(error)})") from error


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
