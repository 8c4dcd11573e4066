"""Chains on disk: a database file that can go back to the generations that state files may still hold.

What is written stays in an overlay in memory until ``state_dict`` makes it permanent as the next generation, in one
transaction. The state file that names this generation is written afterwards, and may never get in place. So the
records that a generation replaced are kept, and a process that finds an earlier state file goes back.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from jsa.chains.records import Records, RowNumbers, checksums, make_records, record_type
from jsa.chains.storage import Rows, States, Storage, Times, check_description, check_rows, check_shapes, description
from jsa.errors import CheckpointError, shortened
from jsa.io.fault_injection import crash_point
from jsa.latent import LatentSpace

FILE_NAME = "chains.sqlite"
FORMAT = 4

_TABLES = """
CREATE TABLE belongs_to (description BLOB NOT NULL);
CREATE TABLE generations (number INTEGER PRIMARY KEY, identity INTEGER, clock INTEGER, changes INTEGER, seal BLOB);
CREATE TABLE chains (row INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE undo (change INTEGER PRIMARY KEY, row INTEGER, record BLOB NOT NULL);
"""
_ROWS_AT_ONCE = 1 << 16
_COPIES = 6
"""How many copies of the chains the disk must hold: themselves, two generations to go back, a journal, unused space."""
_OVERHEAD = 20
"""Bytes that the database adds to a record, rounded up."""
_MARGIN = 1 << 20
_PAGE_SIZES = (1 << 12, 1 << 16)
_OPEN: weakref.WeakValueDictionary[Path, DatabaseStorage] = weakref.WeakValueDictionary()
"""The storages of this process that can write, by file."""


class Generation(NamedTuple):
    """What stood at some moment.

    Attributes:
        number: It counts from 0; one that was undone gives its number to another.
        identity: A random number, so that no other generation of this or another file is taken for it.
        clock: The number of visits.
        changes: How many records had been replaced in all the generations up to this one.
    """

    number: int
    identity: int
    clock: int
    changes: int

    def tensors(self) -> dict[str, Tensor]:
        """Return what a state file must hold of it."""
        named = {"clock": self.clock, "generation": self.number, "identity": self.identity}
        return {name: torch.tensor([number]) for name, number in named.items()}


class DatabaseStorage(Storage):
    """Chains in a database file, which one storage at a time can have open.

    A file that another process has open is refused. One that this process has open is taken over, because an
    interrupted training may stay in memory, in a traceback for instance; the storage that had it is then refused.

    Args:
        path: The file; it is made where it does not exist.
        latent: What a state is made of.
        rows: The number of rows.
        read_only: Whether to leave the file as it is.
    """

    _connection: sqlite3.Connection

    def __init__(self, path: Path, latent: LatentSpace, rows: int, *, read_only: bool = False) -> None:
        self._path = path.resolve()
        self._rows = rows
        self._kind = record_type(latent.packed_bytes)
        self.bytes_per_row = self._kind.itemsize
        self._belongs_to = description(latent, rows, FORMAT)
        # The records of the rows that stand otherwise than in the file.
        self._overlay: dict[int, bytes] = {}
        if not read_only and (earlier := _OPEN.pop(self._path, None)) is not None:
            earlier._connection.close()
        with self._explaining():
            self._connection = self._connect(read_only)
            try:
                self._base = self._open(read_only)
            except BaseException:
                # Whoever keeps the error must not keep the lock.
                self._connection.close()
                raise
        if not read_only:
            _OPEN[self._path] = self
        self._file = _identity(self._path)
        self.visits = self._base.clock

    def read(self, rows: Rows) -> tuple[States, Times]:
        check_rows(rows, self._rows)
        numbers = rows.tolist()
        stored = iter(self._stored([row for row in numbers if row not in self._overlay]))
        found = self._verified(rows.cpu().numpy(), [self._overlay.get(row) or next(stored) for row in numbers])
        return torch.from_numpy(found["state"].copy()), torch.from_numpy(found["moved_at"].astype(np.int64))

    def write(self, rows: Rows, states: States, times: Times) -> None:
        numbers = rows.cpu().numpy()
        self._overlay.update(self._split(numbers, make_records(numbers, states.cpu().numpy(), times.cpu().numpy())))

    def forget(self, rows: Rows) -> None:
        states, times = self.read(rows)
        self.write(rows, torch.zeros_like(states), torch.zeros_like(times))

    def has_all(self, rows: Rows) -> bool:
        return bool((self.read(rows)[1] > 0).all())

    def to(self, device: torch.device) -> None:
        """Do nothing: a file is read on the CPU."""

    def visited(self) -> Iterator[tuple[Rows, Times]]:
        for start in range(0, self._rows, _ROWS_AT_ONCE):
            rows = np.arange(start, min(start + _ROWS_AT_ONCE, self._rows))
            times = self._verified(rows, self._standing(rows))["moved_at"].astype(np.int64)
            yield torch.from_numpy(rows[times > 0]), torch.from_numpy(times[times > 0])

    def state_dict(self) -> dict[str, Tensor]:
        """Make what stands now permanent as a generation; the state file needs only its numbers."""
        if self._overlay or self.visits != self._base.clock:
            with self._explaining():
                self._make_generation()
        return self._base.tensors()

    def commit(self) -> None:
        self.state_dict()

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Go back to a generation; the file changes at the next ``state_dict`` only."""
        check_shapes(saved, self._base.tensors())
        number = int(saved["generation"])
        with self._explaining():
            last, found = self._last_generation(), self._generation(number)
            if found is None or any(int(saved[name]) != int(tensor) for name, tensor in found.tensors().items()):
                raise CheckpointError(
                    f"{self._path} cannot go back to checkpoint {number} of the state file, which is of another run "
                    f"or too old (the last is {last.number}): put back copies of both that were made together"
                )
            undone = self._connection.execute(
                "SELECT CAST(row AS INTEGER), CAST(record AS BLOB) FROM undo WHERE change > ? ORDER BY change DESC",
                (found.changes,),
            ).fetchall()
        if len(undone) != last.changes - found.changes:
            raise self._damaged(f"records of checkpoint {number} are missing")
        self._verified(np.array([row for row, _ in undone], dtype=np.int64), [record for _, record in undone])
        # The oldest record of a row comes last, and counts.
        self._overlay = dict(undone)
        self._base = found
        self.visits = found.clock

    def _connect(self, read_only: bool) -> sqlite3.Connection:
        folder = self._path.parent
        if any((folder / name).exists() for name in ("chains.bin", "chains.json")):
            raise CheckpointError(
                f"{folder} holds chains of an earlier version of jsa: use that version, or delete the folder and start "
                "the chains anew"
            )
        if read_only and not self._path.is_file():
            raise CheckpointError(f"there are no chains at {self._path}: put back a copy, or resume the run")
        folder.mkdir(parents=True, exist_ok=True)
        # Only a writer can finish what a killed process left.
        journal = self._path.with_name(f"{self._path.name}-journal")
        mode = "ro" if read_only and not (journal.is_file() and journal.stat().st_size) else "rwc"
        connection = sqlite3.connect(
            f"{self._path.as_uri()}?mode={mode}",
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        weakref.finalize(self, connection.close)
        return connection

    def _open(self, read_only: bool) -> Generation:
        """Lock the file for as long as it is open, and return its last generation."""
        # Pages of at least eight records waste little.
        smallest, largest = _PAGE_SIZES
        page = min(max(smallest, 1 << (8 * self.bytes_per_row).bit_length()), largest)
        # The lock of the first transaction is held until the file is closed; a mapped file could kill the process.
        settings = (f"page_size={page}", "locking_mode=EXCLUSIVE", "mmap_size=0")
        for setting in (*settings, "journal_mode=TRUNCATE", "synchronous=FULL", "secure_delete=OFF"):
            self._connection.execute(f"PRAGMA {setting}")
        with self._transaction("BEGIN" if read_only else "BEGIN EXCLUSIVE"):
            if not read_only:
                self._check_room()
            if not self._path.stat().st_size:
                self._create()
            found = self._connection.execute("SELECT CAST(description AS BLOB) FROM belongs_to").fetchone()
            try:
                content = json.loads(*found)
            except (TypeError, ValueError, RecursionError):
                raise self._damaged("what they belong to cannot be read") from None
            check_description(f"at {self._path}", content, self._belongs_to)
            return self._last_generation()

    def _create(self) -> None:
        for statement in _TABLES.split(";"):
            self._connection.execute(statement)
        self._connection.execute("INSERT INTO belongs_to VALUES (?)", (json.dumps(self._belongs_to).encode(),))
        # Every row has a record from the beginning: one that is missing was lost.
        for start in range(0, self._rows, _ROWS_AT_ONCE):
            rows = np.arange(start, min(start + _ROWS_AT_ONCE, self._rows))
            states = np.zeros((len(rows), self._kind["state"].shape[0]), np.uint8)
            records = make_records(rows, states, np.zeros(len(rows), np.int64))
            self._connection.executemany("INSERT INTO chains VALUES (?, ?)", self._split(rows, records))
        self._insert(Generation(0, secrets.randbits(63), 0, 0))

    def _check_room(self) -> None:
        """Refuse a disk that the file may fill; what the file has already counts as room."""
        needed = _COPIES * self._rows * (self.bytes_per_row + _OVERHEAD) + _MARGIN
        disk = os.statvfs(self._path.parent)
        room = disk.f_bavail * disk.f_frsize + self._path.stat().st_blocks * 512
        if needed > room:
            raise CheckpointError(
                f"the disk of {self._path} has {room / 1e6:,.1f} MB for the chains, which may take "
                f"{needed / 1e6:,.1f} MB: make room on it, or choose a folder on another"
            )

    def _make_generation(self) -> None:
        if _identity(self._path) != self._file:
            raise CheckpointError(f"{self._path} is gone: put back its folder and resume")
        base, rows, execute = self._base, sorted(self._overlay), self._connection.execute
        made = Generation(base.number + 1, secrets.randbits(63), self.visits, base.changes + len(rows))
        undone = (base.changes,)
        crash_point("generation-begin")
        with self._transaction("BEGIN IMMEDIATE"):
            # What came after the generation that was loaded is undone: no state file will ask for it.
            execute("REPLACE INTO chains SELECT row, record FROM undo WHERE change > ? ORDER BY change DESC", undone)
            execute("DELETE FROM undo WHERE change > ?", undone)
            execute("DELETE FROM generations WHERE number > ?", (base.number,))
            # Two generations that changed every row stay, or more that changed less.
            execute("DELETE FROM generations WHERE changes < ?", (made.changes - 2 * self._rows,))
            execute("DELETE FROM undo WHERE change <= (SELECT min(changes) FROM generations)")
            crash_point("generation-undone")
            execute(
                "INSERT INTO undo SELECT ? + key, row, record FROM json_each(?) CROSS JOIN chains ON row = value",
                (base.changes + 1, json.dumps(rows)),
            )
            self._connection.executemany(
                "REPLACE INTO chains VALUES (?, ?)", ((row, self._overlay[row]) for row in rows)
            )
            crash_point("generation-written")
            self._insert(made)
        crash_point("generation-made")
        self._base = made
        self._overlay.clear()

    def _insert(self, generation: Generation) -> None:
        self._connection.execute(
            "INSERT INTO generations VALUES (?, ?, ?, ?, ?)", (*generation, self._seal(generation))
        )

    def _last_generation(self) -> Generation:
        (number,) = self._connection.execute("SELECT max(number) FROM generations").fetchone()
        found = self._generation(number)
        if found is None:
            raise self._damaged("they have no generation")
        return found

    def _generation(self, number: int | None) -> Generation | None:
        row = self._connection.execute("SELECT * FROM generations WHERE number = ?", (number,)).fetchone()
        if row is None:
            return None
        found = Generation(*row[:-1])
        if row[-1] != self._seal(found):
            raise self._damaged(f"generation {number} does not match its checksum")
        return found

    def _seal(self, generation: Generation) -> bytes:
        return hashlib.sha256(repr((self._belongs_to, *generation)).encode()).digest()

    def _stored(self, rows: Sequence[int]) -> list[bytes]:
        """Return the records of rows from the file; one that is missing is empty."""
        with self._explaining():
            found = self._connection.execute(
                "SELECT coalesce(CAST(record AS BLOB), x'') FROM json_each(?) LEFT JOIN chains ON row = value",
                (json.dumps(rows),),
            )
            return [record for (record,) in found]

    def _standing(self, rows: RowNumbers) -> list[bytes]:
        """Return the records of consecutive rows, which is faster than asking for each."""
        with self._explaining():
            found = self._connection.execute(
                "SELECT CAST(record AS BLOB) FROM chains WHERE row BETWEEN ? AND ? ORDER BY row",
                rows[[0, -1]].tolist(),
            )
            stored = [record for (record,) in found]
        numbers = rows.tolist()
        if len(stored) < len(numbers):
            # To tell which is missing.
            stored = self._stored(numbers)
        return [self._overlay.get(row) or record for row, record in zip(numbers, stored, strict=True)]

    def _verified(self, rows: RowNumbers, content: Sequence[bytes]) -> Records:
        size = self._kind.itemsize
        whole = np.array([len(record) == size for record in content], dtype=np.bool_)
        if whole.all():
            records = np.frombuffer(bytearray().join(content), self._kind)
            whole = checksums(rows, records) == records["checksum"]
        if not whole.all():
            raise self._damaged(f"row {rows[whole.argmin()]} does not match its checksum")
        return records

    def _split(self, rows: RowNumbers, records: Records) -> Iterator[tuple[int, bytes]]:
        content, size = records.tobytes(), self._kind.itemsize
        split = (content[start : start + size] for start in range(0, len(content), size))
        return zip(rows.tolist(), split, strict=True)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self._connection.execute(begin)
        try:
            yield
            self._connection.execute("COMMIT")
        finally:
            # It is over unless something went wrong on the way.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _damaged(self, how: str) -> CheckpointError:
        return CheckpointError(
            f"the chains at {self._path} are damaged ({how}): put back a copy of the file and of the checkpoint that "
            "belongs to it, or delete the file and start the chains anew"
        )

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.ProgrammingError as error:
            raise CheckpointError(
                f"the chains at {self._path} were opened again since: use the later cache, and give each estimator a "
                "folder of its own"
            ) from error
        # The words of an error about a damaged file may be damaged too.
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # What is above the first byte says more than a user needs.
            match getattr(error, "sqlite_errorcode", 0) & 0xFF:
                case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                    raise CheckpointError(
                        f"the chains at {self._path} are in use by something else: end it, or give each estimator a "
                        "folder of its own"
                    ) from error
                case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
                    raise CheckpointError(
                        f"the chains at {self._path} could not be read or written ({error}): make room on the disk "
                        "and resume, no checkpoint is lost"
                    ) from error
                case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
                    raise CheckpointError(
                        f"the chains at {self._path} cannot be opened ({error}): give yourself the right to read and "
                        "write this file and its folder"
                    ) from error
                case _:
                    raise self._damaged(shortened(error)) from error


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another that takes its name."""
    return (path.stat().st_dev, path.stat().st_ino) if path.is_file() else None
