"""What the cache asks of the place where chains are kept, and how the place names what it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

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
