"""Where chains are kept: the protocol of a storage, and chains in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from jsa.errors import CheckpointError, UsageError
from jsa.latent import LatentSpace

Rows = Int64[Tensor, " batch"]
States = UInt8[Tensor, "batch bytes"]
Times = Int64[Tensor, " batch"]


class Storage(Protocol):
    """Packed states and the times of their last moves, by row number; a time of zero says never visited.

    Attributes:
        visits: How many visits of rows were written: the clock of the times.
        bytes_per_row: What a row takes.
    """

    visits: int
    bytes_per_row: int

    def gather(self, rows: Rows) -> tuple[States, Times]:
        """The states and times of rows, as copies; a number that is no row is refused with a UsageError."""
        ...

    def times(self, rows: Rows) -> Times:
        """The times of rows."""
        ...

    def scatter(self, rows: Rows, states: States, times: Times) -> None:
        """Stores states and times of rows, of which none occurs twice and all are known to be there."""
        ...

    def visited(self) -> Iterator[tuple[Rows, Times]]:
        """All rows that have a chain, with their times, some at a time."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Everything: ``states``, ``moved_at`` and ``clock``."""
        ...

    def fill(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes everything from what ``tensors`` gave."""
        ...

    def checkpoint(self) -> dict[str, Tensor]:
        """What a state file must hold of the chains."""
        ...

    def committed(self) -> None:
        """The state file with what ``checkpoint`` gave is in its place."""
        ...

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Goes back to where the chains stood when ``checkpoint`` gave these tensors."""
        ...


def description(latent: LatentSpace, rows: int, format_number: int) -> dict[str, object]:
    """What chains belong to."""
    layers = [[layer.kind, layer.variables, layer.classes] for layer in latent.layers]
    return {"format": format_number, "rows": rows, "layers": layers}


def check_description(where: object, found: object, expected: Mapping[str, object]) -> None:
    """Refuses chains that belong to something else."""
    for key, value in expected.items():
        other = found.get(key, "unknown") if isinstance(found, dict) else "unknown"
        if other != value:
            raise CheckpointError(
                f"the chains at {where} are for {key} {other}, this run has {value}: "
                "they belong to another model, dataset or version"
            )


def check_shapes(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Refuses tensors that are not those of the chains."""
    for name, tensor in expected.items():
        if name not in found or (found[name].shape, found[name].dtype) != (tensor.shape, tensor.dtype):
            raise CheckpointError(
                f"the saved chains do not fit: {name} is missing or of another shape or type; they belong to another "
                "model, dataset or version, or to chains that are kept elsewhere (in memory or memory-mapped)"
            )


def row_error(row: int, rows: int) -> UsageError:
    """The error for a row number that is not there."""
    return UsageError(
        f"a batch has row number {row}, but the cache was made for {rows} rows: give it the length "
        "of the training data, and number the rows from 0"
    )


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
