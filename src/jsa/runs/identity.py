"""What must not change between the two halves of a run, and between a run and those who look at it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jsa.data.schema import Schema
from jsa.errors import CheckpointError
from jsa.io.atomic_files import write_text
from jsa.io.json_records import read_record, to_record
from jsa.runs.config import TrainConfig

if TYPE_CHECKING:
    from jsa.data import Dataset, Splits

FREE = ("optimization.learning_rate", "optimization.non_finite", "machine.checkpoint_seconds", "dataset.data_dir")
"""Settings that may be others when a run is continued."""

ROWS_COMPARED, ROWS_AT_ONCE = 1000, 100

DATA_FILE = "data.json"
"""What a run folder knows of its data beside the configuration."""


@dataclass(frozen=True)
class RowsIdentity:
    """How many rows there are, and a digest of some of them."""

    rows: int
    values: str


@dataclass(frozen=True)
class DataIdentity:
    """The data of a run.

    Attributes:
        started_in: The folder that the run was begun in, from which relative paths of its configuration lead to files.
        train: What is learned from.
        valid: What finds the best epoch.
        test: What is reported.
        shape: What the rows are made of; runs of earlier versions do not say it.
    """

    started_in: Path
    train: RowsIdentity
    valid: RowsIdentity
    test: RowsIdentity
    shape: Schema | None = None

    @classmethod
    def of(cls, splits: Splits, started_in: Path) -> DataIdentity:
        """That of these rows."""
        parts = {name: rows_identity(rows) for name, rows in splits.parts.items()}
        return cls(started_in, **parts, shape=splits.schema)

    def changed(self, splits: Splits) -> str | None:
        """The first part whose rows are others here; none where all are the same."""
        if self.shape is not None and self.shape.words != splits.schema.words:
            return "train"
        parts = splits.parts.items()
        return next((name for name, rows in parts if rows_identity(rows) != getattr(self, name)), None)

    def write(self, folder: Path) -> None:
        """Leaves it in a run folder."""
        write_text(folder / DATA_FILE, json.dumps(to_record(self), indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> DataIdentity | None:
        """That of a run folder; runs of earlier versions have none."""
        path = folder / DATA_FILE
        return read_record(cls, path) if path.is_file() else None


def rows_identity(rows: Dataset) -> RowsIdentity:
    """What tells these rows from others."""
    # Rows that are drawn anew every epoch are compared as they are before the first.
    rows.start_epoch(0)
    return RowsIdentity(len(rows), _digest(rows))


def identity(config: TrainConfig, rows: Dataset) -> dict[str, object]:
    """The settings that make a run what it is, by their dotted names, and a digest of its data."""
    settings = {name: value for name, value in _flat(to_record(config)) if name not in FREE}
    return {**settings, **vars(rows_identity(rows))}


def check_identity(expected: Mapping[str, object], found: object) -> None:
    """Refuses a state that was written under other settings or for other data.

    A setting that the state does not know came into the program later: it was as its default is.
    """
    known = {**dict(_flat(to_record(TrainConfig()))), **(found if isinstance(found, Mapping) else {})}
    for name, value in expected.items():
        if name not in known or known[name] != value:
            if name in ("rows", "values"):
                raise CheckpointError("the training data is not that of the checkpoint: give the run its data back")
            was = known.get(name, "unknown")
            raise CheckpointError(
                f"{name} is {value} in config.json and was {was} when the checkpoint was written: give it back that "
                "value, or begin another run"
            )


def _flat(record: Mapping[str, object], where: str = "") -> Iterator[tuple[str, object]]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{where}{name}.")
        else:
            yield f"{where}{name}", value


def _digest(rows: Dataset) -> str:
    """Of at most 1,000 rows spread evenly, so that it costs nothing: enough to notice another file."""
    import torch  # only here, for reports read identities without it

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
