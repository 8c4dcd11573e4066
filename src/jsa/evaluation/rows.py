"""Parts of a dataset."""

from __future__ import annotations

import torch
from torch import Tensor

from jsa.evaluation.likelihood import Rows
from jsa.types import Batch


class FirstRows:
    """The first rows of a dataset, or all of them."""

    def __init__(self, rows: Rows, count: int | None) -> None:
        self._rows = rows
        self._count = len(rows) if count is None else min(count, len(rows))

    def __len__(self) -> int:
        return self._count

    def batch(self, index: Tensor, device: torch.device | None = None) -> Batch:
        """The rows with these numbers."""
        return self._rows.batch(index, device)
