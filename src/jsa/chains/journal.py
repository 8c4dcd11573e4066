"""The journal: rows on their way to the file of memory-mapped chains, in one file for each staged generation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from jsa.chains.record_file import Records, RowNumbers
from jsa.chains.storage import check_description
from jsa.errors import CheckpointError
from jsa.io.fault_injection import crash_point
from jsa.io.tensor_files import load_tensors, save_tensors


class Journal:
    """Staged generations in a folder, each whole, flushed and verified, or not there.

    Args:
        folder: Where the files are.
        belongs_to: What the chains are for.
        kind: The type of a row.
        rows: How many rows there are in all.
    """

    def __init__(self, folder: Path, belongs_to: Mapping[str, object], kind: np.dtype[np.void], rows: int) -> None:
        self._folder = folder
        self._belongs_to = belongs_to
        self._kind = kind
        self._rows = rows

    def generations(self) -> list[int]:
        """Return the staged generations in order."""
        numbers = (path.name.split("-")[1].split(".")[0] for path in self._folder.glob("journal-*.safetensors"))
        return sorted(int(number) for number in numbers if number.isdecimal())

    def write(self, generation: int, visits: int, rows: RowNumbers, records: Records) -> None:
        """Write the rows of a generation."""
        crash_point("journal-begin")
        content = records.view(np.uint8).reshape(len(records), self._kind.itemsize)
        # Not everything can be done with empty tensors.
        tensors = {"rows": torch.from_numpy(rows), "records": torch.from_numpy(content)} if len(rows) else {}
        save_tensors(self.path(generation), tensors, {**self._belongs_to, "generation": generation, "visits": visits})
        crash_point("journal-written")

    def read(self, generation: int) -> tuple[int, RowNumbers, Records]:
        """Return the clock of a generation and its rows."""
        path = self.path(generation)
        tensors, notes = load_tensors(path)
        check_description(path, notes, self._belongs_to)
        rows = tensors.get("rows", torch.empty(0, dtype=torch.int64))
        content = tensors.get("records", torch.empty(0, self._kind.itemsize, dtype=torch.uint8))
        visits = notes.get("visits")
        if (
            notes.get("generation") != generation
            or not isinstance(visits, int)
            or (rows.dtype, content.dtype) != (torch.int64, torch.uint8)
            or rows.dim() != 1
            or content.shape != (len(rows), self._kind.itemsize)
            or not bool(((rows >= 0) & (rows < self._rows)).all())
        ):
            raise CheckpointError(
                f"{path} is not of checkpoint {generation} of these chains: put back a copy of the run folder"
            )
        return visits, rows.numpy(), content.numpy().view(self._kind).reshape(-1)

    def remove(self, *generations: int) -> None:
        """Remove staged generations."""
        for generation in generations:
            self.path(generation).unlink(missing_ok=True)
            crash_point("journal-removing")

    def path(self, generation: int) -> Path:
        """Return the file of a generation."""
        return self._folder / f"journal-{generation}.safetensors"
