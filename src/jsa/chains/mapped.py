"""Chains in a memory-mapped file, with a journal that makes each checkpoint whole.

Between checkpoints, what is written stays in an overlay in memory and never goes to the file. ``state_dict`` stages the
overlay as the next generation in a journal. Once the state file beside it is in place, which is when the checkpoint
counts, ``commit`` writes the rows of the journal to the file. A process that is killed on the way leaves what is needed
to finish that.
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
import torch
from torch import Tensor

from jsa.chains.journal import Journal
from jsa.chains.record_file import RecordFile, Records, RowNumbers, holds_data, make_records, record_type
from jsa.chains.storage import Rows, States, Storage, Times, check_description, check_rows, check_shapes, description
from jsa.errors import CheckpointError
from jsa.io.atomic_files import flush, remove_leftovers, write_text
from jsa.io.fault_injection import crash_point
from jsa.latent import LatentSpace


@dataclass(frozen=True)
class Manifest:
    """How far the file of the chains has come.

    Attributes:
        generation: The checkpoint whose rows are all in the file.
        committed: The checkpoint whose rows belong there; if it is a later one, its journal has them.
        visits: The clock of the generation.
    """

    generation: int = 0
    committed: int = 0
    visits: int = 0

    def write(self, path: Path, belongs_to: Mapping[str, object]) -> None:
        """Replace an earlier manifest, whole or not at all."""
        content = {**belongs_to, **asdict(self)}
        write_text(path, json.dumps({**content, "checksum": _checksum(content)}) + "\n")

    @classmethod
    def read(cls, path: Path, belongs_to: Mapping[str, object]) -> Manifest:
        """Return the manifest of chains that belong to this."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise _damaged(path) from error
        checksum = content.pop("checksum", None) if isinstance(content, dict) else None
        if checksum is not None and checksum != _checksum(content):
            raise _damaged(path)
        check_description(f"at {path.parent}", content, belongs_to)
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


FORMAT = 3


class MappedStorage(Storage):
    """Chains in a folder: ``chains.bin`` has the rows, ``chains.json`` what they belong to and how far they are."""

    def __init__(self, folder: Path, latent: LatentSpace, rows: int) -> None:
        self._folder = folder
        self._rows = rows
        self._kind = record_type(latent.packed_bytes)
        self.bytes_per_row = self._kind.itemsize
        self._belongs_to = description(latent, rows, FORMAT)
        self._manifest_path = folder / "chains.json"
        self._manifest = self._open_folder()
        self._file = RecordFile(folder / "chains.bin", self._kind, rows)
        self._journal = Journal(folder, self._belongs_to, self._kind, rows)
        # The records of the rows written since the last commit.
        self._overlay: dict[int, bytes] = {}
        self._staged: int | None = None
        self._finish_commit()
        self.visits = self._manifest.visits

    def read(self, rows: Rows) -> tuple[States, Times]:
        check_rows(rows, self._rows)
        numbers = rows.tolist()
        below = [row for row in numbers if row not in self._overlay]
        stored = self._split(self._file.read(np.array(below, dtype=np.int64)))
        found = self._joined([self._overlay.get(row) or next(stored) for row in numbers])
        return torch.from_numpy(found["state"].copy()), torch.from_numpy(found["moved_at"].astype(np.int64))

    def write(self, rows: Rows, states: States, times: Times) -> None:
        self._staged = None
        records = make_records(states.cpu().numpy(), times.cpu().numpy())
        self._overlay.update(zip(rows.tolist(), self._split(records), strict=True))

    def forget(self, rows: Rows) -> None:
        states, times = self.read(rows)
        self.write(rows, torch.zeros_like(states), torch.zeros_like(times))

    def has_all(self, rows: Rows) -> bool:
        return bool((self.read(rows)[1] > 0).all())

    def to(self, device: torch.device) -> None:
        """Do nothing: files are read on the CPU."""

    def visited(self) -> Iterator[tuple[Rows, Times]]:
        for rows, records in self._file.stored():
            below = np.array([row not in self._overlay for row in rows.tolist()])
            yield _with_a_time(rows[below], records[below])
        yield _with_a_time(*self._overlaid())

    def state_dict(self) -> dict[str, Tensor]:
        """Stage the overlay in the journal; the state file needs only the generation and the clock."""
        self._refuse_chains_that_others_moved()
        self._finish_commit()
        earlier = self._journal.generations()
        generation = 1 + max(self._manifest.generation, *earlier, 0)
        with self._explaining_failed_writes():
            # The last one stays: a state file in place may still need it.
            self._journal.remove(*earlier[:-1])
            self._journal.write(generation, self.visits, *self._overlaid())
        self._staged = generation
        return {"clock": torch.tensor([self.visits]), "generation": torch.tensor([generation])}

    def commit(self, saved: Mapping[str, Tensor] | None = None) -> None:
        """Write the rows of a staged generation to the file, unless they are there already."""
        saved = self.state_dict() if saved is None else saved
        number = torch.empty(1, dtype=torch.int64, device="meta")
        check_shapes(saved, {"clock": number, "generation": number})
        generation, visits = int(saved["generation"]), int(saved["clock"])
        self._refuse_chains_that_others_moved()
        self._finish_commit()
        if generation > self._manifest.generation and self._journal.path(generation).is_file():
            crash_point("journal-committing")
            staged_visits, rows, records = self._journal.read(generation)
            if staged_visits != visits:
                raise self._another_checkpoint(generation)
            self._apply(generation, visits, rows, records)
        elif (generation, visits) != (self._manifest.generation, self._manifest.visits):
            raise self._another_checkpoint(generation)
        # If rows were written since then, all stay: they hold what was staged or something later.
        if self._staged == generation:
            self._overlay.clear()

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Finish the commit of this checkpoint, and forget whatever came after it."""
        self.commit(saved)
        self._journal.remove(*self._journal.generations())
        self._overlay.clear()
        self._staged = None
        self.visits = self._manifest.visits

    def _open_folder(self) -> Manifest:
        """Return the manifest of the folder, which is created if it does not exist."""
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
        with self._explaining_failed_writes():
            RecordFile.create(records, self._kind, self._rows)
            Manifest().write(self._manifest_path, self._belongs_to)
        return Manifest()

    def _refuse_chains_that_others_moved(self) -> None:
        """Two caches in one folder would mix their chains: refuse the one that comes second."""
        if not self._manifest_path.exists():
            raise CheckpointError(f"{self._manifest_path} is gone: put back the folder and resume")
        found = Manifest.read(self._manifest_path, self._belongs_to)
        if found.generation != self._manifest.generation:
            raise CheckpointError(
                f"the chains at {self._folder} were moved by something else since they were opened here: resume from "
                "the last checkpoint, and give each estimator that runs at the same time a folder of its own"
            )

    def _finish_commit(self) -> None:
        """Finish a commit that was interrupted by a kill or a full disk."""
        generation = self._manifest.committed
        if generation > self._manifest.generation:
            self._apply(generation, *self._journal.read(generation))

    def _apply(self, generation: int, visits: int, rows: RowNumbers, records: Records) -> None:
        """Write the rows of a generation to the file; once it is marked there is no way back to the one before."""
        with self._explaining_failed_writes():
            self._record(Manifest(self._manifest.generation, generation, self._manifest.visits))
            crash_point("journal-marked")
            self._file.write(rows, records)
            crash_point("journal-applied")
            self._file.flush()
            crash_point("journal-flushed")
            self._record(Manifest(generation, generation, visits))
            crash_point("journal-recorded")
            self._journal.remove(*(each for each in self._journal.generations() if each <= generation))
            flush(self._folder)
            crash_point("journal-removed")

    def _record(self, manifest: Manifest) -> None:
        if manifest != self._manifest:
            manifest.write(self._manifest_path, self._belongs_to)
            self._manifest = manifest

    def _overlaid(self) -> tuple[RowNumbers, Records]:
        """Return the rows of the overlay in order."""
        rows = sorted(self._overlay)
        return np.array(rows, dtype=np.int64), self._joined([self._overlay[row] for row in rows])

    def _split(self, records: Records) -> Iterator[bytes]:
        content, size = records.tobytes(), self._kind.itemsize
        return (content[start : start + size] for start in range(0, len(content), size))

    def _joined(self, records: Sequence[bytes]) -> Records:
        return np.frombuffer(bytearray().join(records), self._kind)

    def _another_checkpoint(self, generation: int) -> CheckpointError:
        return CheckpointError(
            f"the chains at {self._folder} are of checkpoint {self._manifest.generation}, the state file is of "
            f"checkpoint {generation} or of another run: put back copies of both that were made together"
        )

    @contextmanager
    def _explaining_failed_writes(self) -> Iterator[None]:
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


def _with_a_time(rows: RowNumbers, records: Records) -> tuple[Rows, Times]:
    there = records["moved_at"] > 0
    return torch.from_numpy(rows[there]), torch.from_numpy(records["moved_at"][there].astype(np.int64))
