"""Where chains are kept: what every storage can do, and chains in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from jsa.errors import CheckpointError, UsageError, shortened
from jsa.latent import LatentSpace

Rows = Int64[Tensor, " batch"]
States = UInt8[Tensor, "batch bytes"]
Times = Int64[Tensor, " batch"]


class Storage(ABC):
    """Packed states and the times of their last moves, by row number; a time of zero means never visited.

    Row numbers are on the CPU. States and times may be elsewhere, and nothing here waits for that device.

    Attributes:
        visits: The number of visits written so far: the clock of the times.
        bytes_per_row: The size of a row.
    """

    visits: int
    bytes_per_row: int

    @abstractmethod
    def read(self, rows: Rows) -> tuple[States, Times]:
        """Return copies of the states and times of rows; an unknown row number is refused with a UsageError."""

    @abstractmethod
    def write(self, rows: Rows, states: States, times: Times) -> None:
        """Store states and times of known rows, none of which occurs twice; no time is zero."""

    @abstractmethod
    def forget(self, rows: Rows) -> None:
        """Let known rows be never visited again."""

    @abstractmethod
    def has_all(self, rows: Rows) -> bool:
        """Tell whether all of these rows were visited."""

    @abstractmethod
    def visited(self) -> Iterator[tuple[Rows, Times]]:
        """Yield the rows that have a chain with their times, some at a time."""

    @abstractmethod
    def to(self, device: torch.device) -> None:
        """Move states and times to a device, if they can be there."""

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """Return what a state file must hold of the chains."""

    @abstractmethod
    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Go back to where the chains stood when ``state_dict`` returned this."""

    @abstractmethod
    def commit(self) -> None:
        """Make the chains permanent as they are now."""


class MemoryStorage(Storage):
    """Chains in two tensors, so that a batch is read and written by one indexed operation each."""

    def __init__(self, rows: int, state_bytes: int, device: torch.device | str) -> None:
        self.visits = 0
        self._states = torch.zeros(rows, state_bytes, dtype=torch.uint8, device=device)
        self._times = torch.zeros(rows, dtype=torch.int64, device=device)
        # On the CPU, so that nobody waits for the device to learn whether a row has a chain.
        self._visited = torch.zeros(rows, dtype=torch.bool)
        self.bytes_per_row = state_bytes + self._times.itemsize

    def read(self, rows: Rows) -> tuple[States, Times]:
        if self._times.device.type != "cpu":
            # A wrong number would end the process there.
            check_rows(rows, len(self._visited))
        there = rows.to(self._times.device)
        try:
            return self._states.index_select(0, there), self._times.index_select(0, there)
        except (IndexError, RuntimeError):
            check_rows(rows, len(self._visited))
            raise

    def write(self, rows: Rows, states: States, times: Times) -> None:
        self._visited[rows] = True
        device = self._times.device
        rows = rows.to(device)
        self._states.index_copy_(0, rows, states.to(device))
        self._times.index_copy_(0, rows, times.to(device))

    def forget(self, rows: Rows) -> None:
        check_rows(rows, len(self._visited))
        self._visited[rows] = False
        self._times[rows.to(self._times.device)] = 0

    def has_all(self, rows: Rows) -> bool:
        return bool(self._visited[rows].all())

    def visited(self) -> Iterator[tuple[Rows, Times]]:
        rows = self._visited.nonzero().flatten()
        yield rows, self._times.index_select(0, rows.to(self._times.device))

    def to(self, device: torch.device) -> None:
        self._states, self._times = self._states.to(device), self._times.to(device)

    def state_dict(self) -> dict[str, Tensor]:
        """Return all chains; the tensors are not copied."""
        return {"states": self._states, "moved_at": self._times, "clock": torch.tensor([self.visits])}

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        check_shapes(saved, self.state_dict())
        self._states.copy_(saved["states"])
        self._times.copy_(saved["moved_at"])
        self._visited = (self._times > 0).cpu()
        self.visits = int(saved["clock"])

    def commit(self) -> None:
        """Do nothing: a state file holds everything."""


def processes() -> tuple[int, int]:
    """Return the rank of this process and the number of processes that train together."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()


def description(latent: LatentSpace, rows: int, format_number: int) -> dict[str, object]:
    """Return what chains belong to."""
    layers = [[layer.kind, layer.variables, layer.classes] for layer in latent.layers]
    return {"format": format_number, "rows": rows, "layers": layers}


def check_description(where: object, found: object, expected: Mapping[str, object]) -> None:
    """Refuse chains that belong to something else."""
    for key, value in expected.items():
        other = found.get(key, "unknown") if isinstance(found, dict) else "unknown"
        if other != value:
            raise CheckpointError(
                f"the chains {where} are for {key} {shortened(other)}, but here {key} is {shortened(value)}: they "
                "belong to another model, dataset or version"
            )


def check_shapes(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are not those of the chains."""
    for name, tensor in expected.items():
        if name not in found or (found[name].shape, found[name].dtype) != (tensor.shape, tensor.dtype):
            raise CheckpointError(
                f"the saved chains do not fit: {name} is missing or of another shape or type; they belong to another "
                "model, dataset or version, or to chains that are kept elsewhere (in memory or on disk)"
            )


def check_rows(rows: Rows, count: int) -> None:
    """Refuse a row number that does not exist."""
    for row in torch.stack(torch.aminmax(rows)).tolist() if rows.numel() else ():
        if not 0 <= row < count:
            raise UsageError(
                f"a batch has row number {row}, but the cache was made for {count} rows: give it the length "
                "of the training data, and number the rows from 0"
            )
