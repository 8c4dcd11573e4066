"""What must not change while a run is stopped, or between a run and whoever opens it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jsa.data.schema import Schema
from jsa.errors import UsageError
from jsa.io.atomic_files import write_text
from jsa.io.json_records import read_record, to_record
from jsa.runs.config import RunConfig

if TYPE_CHECKING:
    from torch import Tensor

    from jsa.evaluation.rows import InMemory, Rows
    from jsa.model import LatentVariableModel

FREE = (
    *("optimization.learning_rate", "optimization.non_finite", "checkpoints.checkpoint_seconds"),
    *("dataset.data_dir", "machine.memory_limit", "output.progress", "output.pictures"),
)
"""Settings that may change when a run continues."""

ROWS_COMPARED = 1000
"""The rows that are compared of a dataset whose values are not held in memory."""

STORED_ROWS, ENCODED_ROWS = 4096, 100
"""The rows to digest at a time: as they are stored, and in batches, where they are long if there are many classes."""

IDENTITY_FILE = "identity.json"
"""The file of a run folder that identifies its rows and its model."""


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
class RunIdentity:
    """What a run is of: its rows and its model.

    Attributes:
        started_in: The folder that the run was begun in; relative paths of its configuration start there.
        train, valid, test: The rows of each part, None for a part that it does without.
        shape: What a row is made of, None if nothing is known of it.
        model: The model, as ``described`` tells it.
        made_with: The class and the constructor arguments of the model as JSON, None if no file can hold them.
    """

    started_in: Path
    train: RowsIdentity
    valid: RowsIdentity | None
    test: RowsIdentity | None
    shape: Schema | None
    model: str
    made_with: str | None

    @classmethod
    def of(
        cls, parts: Mapping[str, Rows | None], shape: Schema | None, model: LatentVariableModel, started_in: Path
    ) -> RunIdentity:
        """Identify the parts of data and the model."""
        known = {name: None if rows is None else rows_identity(rows) for name, rows in parts.items()}
        train = known["train"]
        assert train is not None
        return cls(started_in, train, known["valid"], known["test"], shape, described(model), _made_with(model))

    def changed(self, parts: Mapping[str, Rows | None]) -> str | None:
        """Return the first part whose rows differ here, None if all are the same."""
        return next(
            (
                name
                for name, rows in parts.items()
                if (None if rows is None else rows_identity(rows)) != getattr(self, name)
            ),
            None,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of a comparison that found nothing: a sentence if it left rows out."""
        if all(part is None or part.compared == part.rows for part in (self.train, self.valid, self.test)):
            return ()
        return (
            f"only {ROWS_COMPARED:,} rows of each part, spread evenly, were compared with the data that the run began "
            "with, because the values are not held in memory: see to it that the others are the same too",
        )

    def write(self, folder: Path) -> None:
        """Write it to a run folder."""
        write_text(folder / IDENTITY_FILE, json.dumps(to_record(self), indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> RunIdentity | None:
        """Read that of a run folder, None if the run has not come to read its data."""
        path = folder / IDENTITY_FILE
        return read_record(cls, path) if path.is_file() else None


def rows_identity(rows: Rows) -> RowsIdentity:
    """Identify rows: by all that is stored of them, or by some of them if they are not held in memory."""
    # Imported here because reports read identities without torch.
    from jsa.data.dataset import Dataset
    from jsa.evaluation.rows import Changing
    from jsa.runs.rows import held

    # Rows that are drawn anew every epoch are compared as they are before the first.
    if isinstance(rows, Changing):
        rows.start_epoch(0)
    kept, digest = held(rows), hashlib.sha256()
    if isinstance(rows, Dataset):
        digest.update(json.dumps(to_record(rows.schema)).encode())
    for part in _some(rows) if kept is None else _stored(*kept, len(rows)):
        digest.update(part)
    for beside in (rows.missing, rows.labels) if isinstance(rows, Dataset) else ():
        for some in () if beside is None else beside.split(STORED_ROWS):
            digest.update(_bytes(some))
    compared = len(rows) if kept is not None else min(ROWS_COMPARED, len(rows))
    return RowsIdentity(len(rows), compared, digest.hexdigest())


def settings(config: RunConfig) -> dict[str, object]:
    """Return the settings that make a run what it is, by their dotted names."""
    return {name: value for name, value in _flat(to_record(config)) if name not in FREE}


def identity(config: RunConfig, train: RowsIdentity, model: str) -> dict[str, object]:
    """Return the settings that make a run what it is, and its training data and model in a few words."""
    return {
        **settings(config),
        "the training data": f"{train.rows} rows with digest {train.digest[:16]}",
        "the model": model,
    }


def _made_with(model: LatentVariableModel) -> str | None:
    """Return the class and the constructor arguments of a model, None if some are such as no file can hold."""
    from jsa.saved_models import constructor_record

    try:
        return json.dumps(constructor_record(model))
    except UsageError:
        return None


def described(model: LatentVariableModel) -> str:
    """Return the class of a model, the number of its weights, and a digest of all that its layers say of themselves."""
    kind, weights = type(model), sum(parameter.numel() for parameter in model.parameters())
    # A function among the settings of a layer shows its address, which is another one in each process.
    said = re.sub(r"0x[0-9a-f]+", "", repr(model)) + str([tuple(tensor.shape) for tensor in model.parameters()])
    digest = hashlib.sha256(said.encode()).hexdigest()[:16]
    return f"{kind.__module__}.{kind.__qualname__} of {weights:,} weights with digest {digest}"


def _flat(record: Mapping[str, object], where: str = "") -> Iterator[tuple[str, object]]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{where}{name}.")
        else:
            yield f"{where}{name}", value


def _stored(rows: InMemory, numbers: Tensor | None, count: int) -> Iterator[memoryview]:
    for start in range(0, count, STORED_ROWS):
        some = slice(start, start + STORED_ROWS)
        for part in rows.stored(some if numbers is None else numbers[some]):
            yield _bytes(part)


def _some(rows: Rows) -> Iterator[bytes | memoryview]:
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
