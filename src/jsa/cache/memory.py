"""Chains in memory: on the processor or on another device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from jsa.cache.storage import Rows, States, Times, check_shapes, row_error


class MemoryStorage:
    """Chains in two tensors, so that a batch is read and written by one indexed operation each."""

    def __init__(self, rows: int, state_bytes: int, device: torch.device | str) -> None:
        self.visits = 0
        self._states = torch.zeros(rows, state_bytes, dtype=torch.uint8, device=device)
        self._times = torch.zeros(rows, dtype=torch.int64, device=device)
        self.bytes_per_row = state_bytes + self._times.itemsize

    def gather(self, rows: Rows) -> tuple[States, Times]:
        """The states and times of rows."""
        return self._select(self._states, rows), self._select(self._times, rows)

    def times(self, rows: Rows) -> Times:
        """The times of rows."""
        return self._select(self._times, rows)

    def scatter(self, rows: Rows, states: States, times: Times) -> None:
        """Stores states and times of rows."""
        device = self._states.device
        where = rows.to(device)
        self._states.index_copy_(0, where, states.to(device))
        self._times.index_copy_(0, where, times.to(device))

    def visited(self) -> Iterator[tuple[Rows, Times]]:
        """All rows that have a chain, at once."""
        rows = self._times.nonzero().flatten()
        yield rows, self._times.index_select(0, rows)

    def tensors(self) -> dict[str, Tensor]:
        """Everything; the tensors are not copied."""
        return {"states": self._states, "moved_at": self._times, "clock": torch.tensor([self.visits])}

    def fill(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes everything."""
        check_shapes(tensors, self.tensors())
        self._states.copy_(tensors["states"])
        self._times.copy_(tensors["moved_at"])
        self.visits = int(tensors["clock"])

    def checkpoint(self) -> dict[str, Tensor]:
        """All chains: the state file holds them."""
        return self.tensors()

    def committed(self) -> None:
        """Nothing is left to do."""

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes all chains back."""
        self.fill(tensors)

    def _select(self, source: Tensor, rows: Tensor) -> Tensor:
        if source.device.type != "cpu":
            # A wrong number would end the process there, and the check waits for the device.
            self._check(rows)
        try:
            return source.index_select(0, rows.to(source.device))
        except (IndexError, RuntimeError):
            self._check(rows)
            raise

    def _check(self, rows: Tensor) -> None:
        if rows.numel():
            for row in torch.stack(torch.aminmax(rows)).tolist():
                if not 0 <= row < len(self._states):
                    raise row_error(row, len(self._states))
