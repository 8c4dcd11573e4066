"""The journal of a checkpoint: the rows that are to be written to the file of memory-mapped chains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from jsa.chains.record_file import Records, RowNumbers
from jsa.chains.storage import check_description
from jsa.errors import CheckpointError
from jsa.io.fault_injection import crash_point
from jsa.io.tensor_files import load_tensors, save_tensors


class Journal:
    """Some rows in one or more safetensors files; each of the files is whole, flushed and verified, or not there.

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

    def write(self, generation: int, visits: int, parts: int, content: Iterable[tuple[RowNumbers, Records]]) -> None:
        """Writes the rows of a generation in place of any earlier journal."""
        self.remove()
        crash_point("journal-begin")
        try:
            for number, (rows, records) in enumerate(content):
                tensors = {"rows": torch.from_numpy(rows), "records": torch.from_numpy(_as_bytes(records))}
                place = {"generation": generation, "visits": visits, "part": number, "parts": parts}
                # An empty part has no tensors, because not everything can be done with empty ones.
                save_tensors(self._path(number), tensors if len(rows) else {}, {**self._belongs_to, **place})
                crash_point("journal-part")
        except BaseException:
            self.remove()  # a journal that is not whole only takes room on a disk that may be full
            raise
        crash_point("journal-written")

    def visits(self, generation: int) -> int:
        """The clock of a generation, whose journal is verified to be whole."""
        return max(visits for visits, _, _ in self._parts(generation))

    def read(self, generation: int) -> Iterator[tuple[RowNumbers, Records]]:
        """The rows of a generation, a file at a time."""
        for _, rows, records in self._parts(generation):
            yield rows, records

    def remove(self) -> None:
        """Removes the journal, if there is one."""
        for path in sorted(self._folder.glob("journal-*.safetensors")):
            path.unlink()
            crash_point("journal-removing")

    def _parts(self, generation: int) -> Iterator[tuple[int, RowNumbers, Records]]:
        number, parts = 0, 1
        while number < parts:
            path = self._path(number)
            if not path.is_file():
                raise CheckpointError(
                    f"{path} is missing, which the last checkpoint needs: put back a copy of the run folder"
                )
            tensors, notes = load_tensors(path)
            check_description(path, notes, self._belongs_to)
            rows = tensors.get("rows", torch.empty(0, dtype=torch.int64))
            content = tensors.get("records", torch.empty(0, self._kind.itemsize, dtype=torch.uint8))
            visits, found_parts = notes.get("visits"), notes.get("parts")
            if (
                (notes.get("generation"), notes.get("part")) != (generation, number)
                or not isinstance(visits, int)
                or not isinstance(found_parts, int)
                or rows.dtype != torch.int64
                or content.dtype != torch.uint8
                or rows.dim() != 1
                or content.shape != (len(rows), self._kind.itemsize)
                or not bool(((rows >= 0) & (rows < self._rows)).all())
            ):
                raise CheckpointError(
                    f"{path} is not of checkpoint {generation} of these chains: put back a copy of the run folder"
                )
            parts = found_parts
            yield visits, rows.numpy(), content.numpy().view(self._kind).reshape(-1)
            number += 1

    def _path(self, number: int) -> Path:
        return self._folder / f"journal-{number}.safetensors"


def _as_bytes(records: Records) -> npt.NDArray[np.uint8]:
    return records.view(np.uint8).reshape(len(records), records.dtype.itemsize)
