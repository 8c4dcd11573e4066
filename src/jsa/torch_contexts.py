"""Context managers for torch: evaluation mode, denormal numbers, random numbers, and buffers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from jsa.errors import Range


@contextmanager
def in_evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put a module and its submodules into evaluation mode inside this block; then restore the mode of each.

    Example:
        >>> network = nn.Sequential(nn.Dropout().eval(), nn.Dropout())
        >>> with in_evaluation_mode(network):
        ...     network[1].training
        False
        >>> [part.training for part in network]
        [False, True]
    """
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


@contextmanager
def denormals_as_before() -> Iterator[None]:
    """Restore the handling of denormal numbers, flushed to zero or kept, at the end of this block.

    Example:
        >>> with denormals_as_before():
        ...     flushing = torch.set_flush_denormal(True)
        >>> bool(torch.full((), 1e-310, dtype=torch.float64) * 1 > 0)
        True
    """
    # torch has no function to ask for the current setting.
    kept = bool(torch.full((), 1e-310, dtype=torch.float64) * 1 > 0)
    try:
        yield
    finally:
        torch.set_flush_denormal(not kept)


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Draw torch's random numbers from a seed inside this block; then continue as if none had been drawn.

    Args:
        seed: The seed.
        device: The only device, besides the CPU, on which numbers are drawn; any device if not given.

    Example:
        >>> before = torch.get_rng_state()
        >>> with seeded(3):
        ...     first = torch.rand(2)
        >>> torch.equal(torch.get_rng_state(), before)
        True
    """
    Range(whole=True).check(seed=seed)
    devices = None if device is None else [device] if device.type != "cpu" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield


@contextmanager
def leaving_no_trace(module: nn.Module, device: torch.device) -> Iterator[None]:
    """Run passes of a module inside this block; then its buffers and torch's random state are as before.

    Args:
        module: The module, in the mode that it is in.
        device: The only device, besides the CPU, on which random numbers are drawn.

    Example:
        >>> normalization = nn.BatchNorm1d(2)
        >>> with leaving_no_trace(normalization, torch.device("cpu")):
        ...     _ = normalization(torch.rand(5, 2))
        >>> normalization.num_batches_tracked
        tensor(0)
    """
    # The passes get copies, so that no graph which is waiting for its backward finds a buffer changed.
    copies: dict[int, torch.Tensor] = {}
    before = [(part, dict(part._buffers)) for part in module.modules()]
    for part, buffers in before:
        for name, buffer in buffers.items():
            if buffer is not None:
                part._buffers[name] = copies.setdefault(id(buffer), buffer.detach().clone())
    try:
        with torch.random.fork_rng([device] if device.type != "cpu" else []):
            yield
    finally:
        for part, buffers in before:
            part._buffers.update(buffers)
