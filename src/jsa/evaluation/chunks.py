"""How the rows of an evaluation are taken: so many at once that their states stay in the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from jsa.errors import UsageError
from jsa.evaluation.rows import Rows
from jsa.passes import states_at_once
from jsa.types import Batch


def states_in_chunk(rows: Rows) -> int:
    """About how many states of such rows are evaluated at once."""
    return states_at_once(rows.batch(torch.arange(1))) if len(rows) else 1


def in_chunks(rows: Rows, size: int, device: torch.device) -> Iterator[Batch]:
    """All rows, so many at once, on a device."""
    if len(rows) == 0:
        raise UsageError("there are no rows to evaluate")
    for index in torch.arange(len(rows)).split(size):
        yield rows.batch(index, device)


def device_of(model: torch.nn.Module) -> torch.device:
    """Where a model is evaluated: where its parameters are."""
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device
