"""What must not change while a run is stopped, or between a run and whoever opens it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jsa.data.schema import Schema
from jsa.io.atomic_files import write_text
from jsa.io.json_records import read_record, to_record
from jsa.runs.config import RunConfig

if TYPE_CHECKING:
    from torch import Tensor

    from jsa.data import Dataset, Splits
    from jsa.data.dataset import InMemory

FREE = (
    *("optimization.learning_rate", "optimization.non_finite", "checkpoints.checkpoint_seconds"),
    *("dataset.data_dir", "machine.memory_limit"),
)
"""Settings that may change when a run continues."""

ROWS_COMPARED = 1000
"""The rows that are compared of a dataset whose values are not held in memory."""

STORED_ROWS, ENCODED_ROWS = 4096, 100
"""The rows to digest at a time: as they are stored, and in batches, where they are long if there are many classes."""

DATA_FILE = "data.json"
"""The file of a run folder that identifies its data."""


@dataclass(frozen=True)
class RowsIdentity:
    """Rows, identified.

    Attributes:
        rows: Their number.
        compared: The number of rows in the digest: all, or some spread evenly if the values are not held in memory.
        digest: The digest of these rows, and of the names and words of the columns.
    """

    rows: int
    compared: int
    digest: str


@dataclass(frozen=True)
class DataIdentity:
    """The data of a run.

    Attributes:
        started_in: The folder that the run was begun in; relative paths of its configuration start there.
        train, valid, test: The rows of each split.
        shape: What a row is made of.
    """

    started_in: Path
    train: RowsIdentity
    valid: RowsIdentity
    test: RowsIdentity
    shape: Schema

    @classmethod
    def of(cls, splits: Splits, started_in: Path) -> DataIdentity:
        """Identify splits."""
        parts = {name: rows_identity(rows) for name, rows in splits.parts.items()}
        return cls(started_in, **parts, shape=splits.schema)

    def changed(self, splits: Splits) -> str | None:
        """Return the first split whose rows differ here, None if all are the same."""
        parts = splits.parts.items()
        return next((name for name, rows in parts if rows_identity(rows) != getattr(self, name)), None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of a comparison that found nothing: a sentence if it left rows out."""
        if all(part.compared == part.rows for part in (self.train, self.valid, self.test)):
            return ()
        return (
            f"only {ROWS_COMPARED:,} rows of each split, spread evenly, were compared with the data that the run began "
            "with, because the values are not held in memory: see to it that the others are the same too",
        )

    def write(self, folder: Path) -> None:
        """Write it to a run folder."""
        write_text(folder / DATA_FILE, json.dumps(to_record(self), indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> DataIdentity | None:
        """Read that of a run folder, None if the run has not come to read its data."""
        path = folder / DATA_FILE
        return read_record(cls, path) if path.is_file() else None


def rows_identity(rows: Dataset) -> RowsIdentity:
    """Identify rows: by all that is stored of them, or by some of them if they are not held in memory."""
    from jsa.data.dataset import Conditioned, InMemory  # imported here because reports read identities without torch

    # Rows that are drawn anew every epoch are compared as they are before the first.
    rows.start_epoch(0)
    held = rows.whole if isinstance(rows, Conditioned) else rows
    digest = hashlib.sha256(json.dumps(to_record(rows.schema)).encode())
    for part in _stored(held) if isinstance(held, InMemory) else _some(rows):
        digest.update(part)
    for beside in (rows.missing, rows.labels):
        for some in () if beside is None else beside.split(STORED_ROWS):
            digest.update(_bytes(some))
    compared = len(rows) if isinstance(held, InMemory) else min(ROWS_COMPARED, len(rows))
    return RowsIdentity(len(rows), compared, digest.hexdigest())


def identity(config: RunConfig, train: RowsIdentity) -> dict[str, object]:
    """Return the settings that make a run what it is, by their dotted names, and its training data in a few words."""
    settings = {name: value for name, value in _flat(to_record(config)) if name not in FREE}
    return {**settings, "the training data": f"{train.rows} rows with digest {train.digest[:16]}"}


def _flat(record: Mapping[str, object], where: str = "") -> Iterator[tuple[str, object]]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{where}{name}.")
        else:
            yield f"{where}{name}", value


def _stored(rows: InMemory) -> Iterator[memoryview]:
    for start in range(0, len(rows), STORED_ROWS):
        for part in rows.stored(slice(start, start + STORED_ROWS)):
            yield _bytes(part)


def _some(rows: Dataset) -> Iterator[bytes | memoryview]:
    import torch

    from jsa.evaluation.rows import Subset

    for index in Subset.spread(rows, ROWS_COMPARED).numbers.split(ENCODED_ROWS):
        batch = rows.batch(index)
        for name, value in vars(batch).items():
            if isinstance(value, torch.Tensor):
                yield name.encode()
                yield _bytes(value)


def _bytes(values: Tensor) -> memoryview:
    import torch

    # Not with their own type, for numpy does not have all of torch's.
    return values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
