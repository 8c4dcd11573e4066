"""Chains in a memory-mapped file, with a journal that makes each checkpoint whole.

Between checkpoints, what is written stands in an overlay in memory and never in the file. A checkpoint writes the
overlay to a journal. Only when the state file beside it is in its place, which is when the checkpoint counts, are the
rows of the journal written to the file. A process that is killed on the way leaves what is needed to finish that.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from jsa.chains.journal import Journal
from jsa.chains.record_file import RecordFile, Records, RowNumbers, holds_data, make_records, record_type
from jsa.chains.storage import Rows, States, Times, check_description, check_shapes, description, row_error
from jsa.errors import CheckpointError, UsageError
from jsa.io.atomic_files import flush, remove_leftovers, write_text
from jsa.io.fault_injection import crash_point
from jsa.latent import LatentSpace


@dataclass(frozen=True)
class Manifest:
    """How far the file of the chains is.

    Attributes:
        generation: The checkpoint whose rows are all in the file.
        committed: The checkpoint whose rows belong there; where it is a later one, its journal has them.
        visits: The clock of the generation.
    """

    generation: int = 0
    committed: int = 0
    visits: int = 0

    def write(self, path: Path, belongs_to: Mapping[str, object]) -> None:
        """Puts it in the place of an earlier one, whole or not at all."""
        content = {**belongs_to, **asdict(self)}
        write_text(path, json.dumps({**content, "checksum": _checksum(content)}) + "\n")

    @classmethod
    def read(cls, path: Path, belongs_to: Mapping[str, object]) -> Manifest:
        """The manifest of chains that belong to this."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise _damaged(path) from error
        checksum = content.pop("checksum", None) if isinstance(content, dict) else None
        if checksum is not None and checksum != _checksum(content):
            raise _damaged(path)
        check_description(path.parent, content, belongs_to)
        numbers = {name: content.get(name) for name in asdict(cls())}
        if checksum is None or not all(isinstance(number, int) and number >= 0 for number in numbers.values()):
            raise _damaged(path)
        return cls(**numbers)


def _checksum(content: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _damaged(path: Path) -> CheckpointError:
    return CheckpointError(
        f"{path} is damaged: put back a copy of its folder, or delete the folder and start the chains anew"
    )


_FIRST_CAPACITY = 1024


class Overlay:
    """Rows in memory that stand before those of the file: its size follows the rows touched, not the rows held."""

    def __init__(self, kind: np.dtype[np.void]) -> None:
        self._kind = kind
        self.clear()

    def __len__(self) -> int:
        return len(self._slots)

    def clear(self) -> None:
        """Forgets everything."""
        # A new row takes the next slot, so the rows stand in the order of their slots.
        self._slots: dict[int, int] = {}
        self._records: Records = np.zeros(_FIRST_CAPACITY, self._kind)

    def slots(self, rows: Sequence[int]) -> npt.NDArray[np.int64]:
        """Where these rows stand, -1 for a row that is not here."""
        find = self._slots.get
        return np.array([find(row, -1) for row in rows], dtype=np.int64)

    def take(self, slots: npt.NDArray[np.int64]) -> Records:
        """Copies of what stands in these slots."""
        return self._records[slots]

    def put(self, rows: Sequence[int], records: Records) -> None:
        """Stores rows, of which none occurs twice."""
        known = self._slots
        slots = [known.setdefault(row, len(known)) for row in rows]
        if len(known) > len(self._records):
            grown = np.zeros(max(len(known), 2 * len(self._records)), self._kind)
            grown[: len(self._records)] = self._records
            self._records = grown
        self._records[slots] = records

    def sorted(self, rows_at_once: int) -> Iterator[tuple[npt.NDArray[np.int64], Records]]:
        """Everything by row number, some at a time; one empty part where there is nothing."""
        rows = np.fromiter(self._slots, np.int64, len(self._slots))
        order = rows.argsort()
        for start in range(0, max(len(rows), 1), rows_at_once):
            some = order[start : start + rows_at_once]
            yield rows[some], self._records[some]


FORMAT = 2
ROWS_A_PART = 1 << 18
"""How many rows a file of the journal holds: few, so that a checkpoint needs little memory beside the overlay."""
LARGEST_SAVE = 1 << 31
"""How many bytes of chains are gathered in memory to save them as one file."""


class MappedStorage:
    """Chains in a folder: ``chains.bin`` has the rows, ``chains.json`` what they are for and how far they are."""

    def __init__(self, folder: Path, latent: LatentSpace, rows: int) -> None:
        self._folder = folder
        self._rows = rows
        self._state_bytes = latent.packed_bytes
        self._kind = record_type(latent.packed_bytes)
        self.bytes_per_row = self._kind.itemsize
        self._belongs_to = description(latent, rows, FORMAT)
        self._manifest_path = folder / "chains.json"
        self._manifest = self._open_folder()
        self._file = RecordFile(folder / "chains.bin", self._kind, rows)
        self._journal = Journal(folder, self._belongs_to, self._kind, rows)
        self._overlay = Overlay(self._kind)
        self._journal_is_current = False
        self._finish()
        self.visits = self._manifest.visits

    def gather(self, rows: Rows) -> tuple[States, Times]:
        """The states and times of rows."""
        found = self._find(rows)
        states = torch.from_numpy(np.ascontiguousarray(found["state"]))
        return states, torch.from_numpy(found["moved_at"].astype(np.int64))

    def times(self, rows: Rows) -> Times:
        """The times of rows."""
        return torch.from_numpy(self._find(rows)["moved_at"].astype(np.int64))

    def scatter(self, rows: Rows, states: States, times: Times) -> None:
        """Stores states and times of rows until the next checkpoint."""
        self._journal_is_current = False
        self._overlay.put(rows.tolist(), make_records(states.cpu().numpy(), times.cpu().numpy()))

    def visited(self) -> Iterator[tuple[Rows, Times]]:
        """All rows that have a chain, some at a time; holes of the file are passed over."""
        for rows, records in self._stored_and_overlaid():
            there = records["moved_at"] > 0
            yield torch.from_numpy(rows[there]), torch.from_numpy(records["moved_at"][there].astype(np.int64))

    def tensors(self) -> dict[str, Tensor]:
        """Everything, gathered in memory: refused where that is too much for it."""
        if self._rows * self.bytes_per_row > LARGEST_SAVE:
            raise UsageError(
                f"these {self._rows} chains are too many to gather in memory for one file: flush them and copy the "
                f"folder {self._folder} instead"
            )
        states = torch.zeros(self._rows, self._state_bytes, dtype=torch.uint8)
        times = torch.zeros(self._rows, dtype=torch.int64)
        for rows, records in self._stored_and_overlaid():
            states[rows] = torch.from_numpy(np.ascontiguousarray(records["state"]))
            times[rows] = torch.from_numpy(records["moved_at"].astype(np.int64))
        return {"states": states, "moved_at": times, "clock": torch.tensor([self.visits])}

    def fill(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes everything into the overlay."""
        expected = {
            "states": torch.empty(self._rows, self._state_bytes, dtype=torch.uint8, device="meta"),
            "moved_at": torch.empty(self._rows, dtype=torch.int64, device="meta"),
            "clock": torch.empty(1, dtype=torch.int64, device="meta"),
        }
        check_shapes(tensors, expected)
        for rows in torch.arange(self._rows).split(ROWS_A_PART):
            self.scatter(rows, tensors["states"][rows], tensors["moved_at"][rows])
        self.visits = int(tensors["clock"])

    def checkpoint(self) -> dict[str, Tensor]:
        """Writes the overlay to the journal; the state file needs only the number of the checkpoint and the clock."""
        self._finish()
        self._refuse_chains_that_others_moved()
        generation = self._manifest.generation + 1
        parts = max(1, -(-len(self._overlay) // ROWS_A_PART))
        with self._telling_of_failed_writes():
            self._journal.write(generation, self.visits, parts, self._overlay.sorted(ROWS_A_PART))
        self._journal_is_current = True
        return {"clock": torch.tensor([self.visits]), "generation": torch.tensor([generation])}

    def committed(self) -> None:
        """Writes the rows of the journal to the file, and clears journal and overlay."""
        if not self._journal_is_current:
            raise UsageError(
                "committed() follows a checkpoint(), with no write to the chains between them: "
                "call it as soon as the state file is in its place"
            )
        crash_point("journal-committing")
        self._apply(self.visits, self._overlay.sorted(ROWS_A_PART))
        self._overlay.clear()
        self._journal_is_current = False

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Goes back to a checkpoint, and finishes what a killed process had begun when its state file was in place."""
        number = torch.empty(1, dtype=torch.int64, device="meta")
        check_shapes(tensors, {"clock": number, "generation": number})
        generation, visits = int(tensors["generation"]), int(tensors["clock"])
        applied = self._manifest.generation
        if generation == applied + 1:
            if self._journal.visits(generation) != visits:
                raise self._another_checkpoint(generation)
            self._apply(visits, self._journal.read(generation))
        elif (generation, visits) != (applied, self._manifest.visits):
            raise self._another_checkpoint(generation)
        else:
            # What is left is of a checkpoint whose state file never came to its place, or is in the file already.
            self._journal.remove()
        self._overlay.clear()
        self._journal_is_current = False
        self.visits = visits

    def _open_folder(self) -> Manifest:
        """The manifest of the folder, which is made where it is not there."""
        self._folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self._folder)
        if self._manifest_path.exists():
            return Manifest.read(self._manifest_path, self._belongs_to)
        records = self._folder / "chains.bin"
        if records.exists() and holds_data(records):
            raise CheckpointError(
                f"{self._manifest_path} is missing, but {records} holds chains: put back a copy of the folder, "
                "or delete it and start the chains anew"
            )
        with self._telling_of_failed_writes():
            RecordFile.create(records, self._kind, self._rows)
            Manifest().write(self._manifest_path, self._belongs_to)
        return Manifest()

    def _refuse_chains_that_others_moved(self) -> None:
        """Two that work in one folder would mix their chains; the one that comes late with a checkpoint is told."""
        if not self._manifest_path.exists():
            raise CheckpointError(f"{self._manifest_path} is gone: put back the folder and resume")
        found = Manifest.read(self._manifest_path, self._belongs_to)
        if found.generation != self._manifest.generation:
            raise CheckpointError(
                f"the chains at {self._folder} were moved by something else since they were opened here: resume from "
                "the last checkpoint, and give each estimator that runs at the same time a folder of its own"
            )

    def _finish(self) -> None:
        """Writes the rest of a checkpoint that counts, but did not come to its end (a kill, a full disk)."""
        generation = self._manifest.committed
        if generation > self._manifest.generation:
            self._apply(self._journal.visits(generation), self._journal.read(generation))

    def _apply(self, visits: int, content: Iterator[tuple[RowNumbers, Records]]) -> None:
        """Writes the rows of the next generation to the file: from now on there is no way back to the one before."""
        generation = self._manifest.generation + 1
        with self._telling_of_failed_writes():
            self._record(Manifest(self._manifest.generation, generation, self._manifest.visits))
            crash_point("journal-marked")
            for rows, records in content:
                self._file.write(rows, records)
            crash_point("journal-applied")
            self._file.flush()
            crash_point("journal-flushed")
            self._record(Manifest(generation, generation, visits))
            crash_point("journal-recorded")
            self._journal.remove()
            flush(self._folder)
            crash_point("journal-removed")

    def _record(self, manifest: Manifest) -> None:
        if manifest != self._manifest:
            manifest.write(self._manifest_path, self._belongs_to)
            self._manifest = manifest

    def _find(self, rows: Tensor) -> Records:
        numbers = rows.tolist()
        for row in (min(numbers), max(numbers)) if numbers else ():
            if not 0 <= row < self._rows:
                raise row_error(row, self._rows)
        slots = self._overlay.slots(numbers)
        found = self._overlay.take(slots)
        elsewhere = np.flatnonzero(slots < 0)
        if len(elsewhere):
            found[elsewhere] = self._file.read(rows.cpu().numpy()[elsewhere])
        return found

    def _stored_and_overlaid(self) -> Iterator[tuple[RowNumbers, Records]]:
        """Every row that may have a chain, once."""
        for rows, records in self._file.stored():
            below = self._overlay.slots(rows.tolist()) < 0 if len(self._overlay) else np.ones(len(rows), np.bool_)
            yield rows[below], records[below]
        yield from self._overlay.sorted(ROWS_A_PART)

    def _another_checkpoint(self, generation: int) -> CheckpointError:
        return CheckpointError(
            f"the chains at {self._folder} are of checkpoint {self._manifest.generation}, the state file is of "
            f"checkpoint {generation} or of another run: put back copies of both that were made together"
        )

    @contextmanager
    def _telling_of_failed_writes(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            advice = (
                "make room on the disk" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else "mend that"
            )
            raise CheckpointError(
                f"the chains at {self._folder} could not be written ({os.strerror(error.errno or 0)}): {advice} and "
                "resume, no checkpoint is lost"
            ) from error
