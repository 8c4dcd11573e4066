"""Modes of modules, of the processor and of random numbers, and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def in_evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Within it a module and all inside it are in evaluation mode; then each is in the mode that it was in.

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
    """Afterwards denormal numbers are flushed to zero, or kept, as they were before, whatever was done within it.

    Example:
        >>> with denormals_as_before():
        ...     flushing = torch.set_flush_denormal(True)
        >>> bool(torch.full((), 1e-310, dtype=torch.float64) * 1 > 0)
        True
    """
    # There is no function that tells.
    kept = bool(torch.full((), 1e-310, dtype=torch.float64) * 1 > 0)
    try:
        yield
    finally:
        torch.set_flush_denormal(not kept)


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Within it torch's random numbers are those of a seed; then they go on as if none had been drawn.

    Args:
        seed: The seed.
        device: The only device, beside the processor, on which numbers are drawn; all where not given.

    Example:
        >>> before = torch.get_rng_state()
        >>> with seeded(3):
        ...     first = torch.rand(2)
        >>> torch.equal(torch.get_rng_state(), before)
        True
    """
    devices = None if device is None else [device] if device.type != "cpu" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield
