"""Count the moments at which a program would wait for its device, on a machine that has none.

Every tensor counts as one of the device, but for row numbers and what is computed from tensors of the host alone. So
each of ``item``, ``tolist``, ``bool``, ``float``, ``nonzero``, indexing by truth values and copies to the CPU counts.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

WAITING = {
    "torch.Tensor.item",
    "torch.Tensor.tolist",
    "torch.Tensor.numpy",
    "torch.Tensor.cpu",
    "torch.Tensor.__bool__",
    "torch.Tensor.__float__",
    "torch.Tensor.__int__",
    "torch.Tensor.__index__",
    "torch.Tensor.nonzero",
    "torch.nonzero",
    "torch.Tensor.unique",
    "torch.unique",
    "torch.masked_select",
    "torch.Tensor.masked_select",
    "torch.equal",
    "torch.Tensor.equal",
    "torch.allclose",
    "torch.Tensor.__contains__",
}
INDEXING = {"torch.Tensor.__getitem__", "torch.Tensor.__setitem__"}


class Synchronizations(TorchFunctionMode):
    """The places that waited, in the order in which they did."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[str] = []
        self._host = WeakIdKeyDictionary()

    def on_host(self, tensor: Tensor) -> None:
        """Let a tensor be one of the host."""
        self._host[tensor] = True

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        tensors = _tensors((args, given))
        host = bool(tensors) and all(tensor in self._host for tensor in tensors)
        name = resolve_name(func) or ""
        to_host = name == "torch.Tensor.cpu" or (name == "torch.Tensor.to" and _names_the_cpu(args[1:], given))
        if not host and (name in WAITING or to_host or (name in INDEXING and _by_truth_values(args[1]))):
            self.places.append(f"{name} {_place()}")
        result = func(*args, **given)
        if host or to_host:
            for tensor in _tensors(result):
                self._host[tensor] = True
        return result


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def _names_the_cpu(args: tuple[Any, ...], given: Mapping[str, Any]) -> bool:
    # A move to the device of other tensors is spelled with a device of torch: here all of them are the CPU.
    return any(part == "cpu" for part in (*args, *given.values()) if isinstance(part, str))


def _by_truth_values(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, Tensor) and part.dtype == torch.bool and part.ndim > 0 for part in parts)


def _place() -> str:
    frames = [frame for frame in traceback.extract_stack() if "/jsa/" in frame.filename]
    return f"{frames[-1].filename.rpartition('/jsa/')[2]}:{frames[-1].lineno}" if frames else "elsewhere"


@contextmanager
def synchronizations(*host: Tensor) -> Iterator[list[str]]:
    """Count inside this block; these tensors are on the host."""
    mode = Synchronizations()
    for tensor in host:
        mode.on_host(tensor)
    with mode:
        yield mode.places
