"""Evaluation mode, and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
