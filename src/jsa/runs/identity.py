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
    from jsa.data import Dataset, Splits

FREE = ("optimization.learning_rate", "optimization.non_finite", "checkpoints.checkpoint_seconds", "dataset.data_dir")
"""Settings that may change when a run continues."""

ROWS_COMPARED, ROWS_AT_ONCE = 1000, 100

DATA_FILE = "data.json"
"""The file of a run folder that identifies its data."""


@dataclass(frozen=True)
class RowsIdentity:
    """The number of rows, and a digest of some of them."""

    rows: int
    values: str


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
        if self.shape.words != splits.schema.words:
            return "train"
        parts = splits.parts.items()
        return next((name for name, rows in parts if rows_identity(rows) != getattr(self, name)), None)

    def write(self, folder: Path) -> None:
        """Write it to a run folder."""
        write_text(folder / DATA_FILE, json.dumps(to_record(self), indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> DataIdentity | None:
        """Read that of a run folder, None if the run has not come to read its data."""
        path = folder / DATA_FILE
        return read_record(cls, path) if path.is_file() else None


def rows_identity(rows: Dataset) -> RowsIdentity:
    """Identify rows."""
    # Rows that are drawn anew every epoch are compared as they are before the first.
    rows.start_epoch(0)
    return RowsIdentity(len(rows), _digest(rows))


def identity(config: RunConfig, rows: Dataset) -> dict[str, object]:
    """Return the settings that make a run what it is, by their dotted names, and its training data in a few words."""
    settings = {name: value for name, value in _flat(to_record(config)) if name not in FREE}
    known = rows_identity(rows)
    return {**settings, "the training data": f"{known.rows} rows with digest {known.values[:16]}"}


def _flat(record: Mapping[str, object], where: str = "") -> Iterator[tuple[str, object]]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{where}{name}.")
        else:
            yield f"{where}{name}", value


def _digest(rows: Dataset) -> str:
    """Digest at most 1,000 rows spread evenly, which costs nothing and is enough to notice another file."""
    import torch  # imported here because reports read identities without it

    chosen = torch.linspace(0, len(rows) - 1, min(ROWS_COMPARED, len(rows)), dtype=torch.float64).long()
    digest = hashlib.sha256()
    # A few rows at a time, for with many classes a row in a batch is long.
    for context in (False, True) if rows.schema.context_columns else (False,):
        for index in chosen.split(ROWS_AT_ONCE):
            batch = rows.batch(index)
            values = batch.context if context else batch.x
            assert values is not None
            digest.update(values.cpu().numpy().tobytes())
    return digest.hexdigest()
