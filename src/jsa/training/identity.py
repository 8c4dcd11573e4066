"""What must not change between the two halves of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import torch

from jsa.configuration import TrainConfig
from jsa.data import Dataset
from jsa.errors import CheckpointError
from jsa.records import to_record

FREE = ("optimisation.learning_rate", "optimisation.non_finite", "machine.checkpoint_seconds", "dataset.data_dir")
"""Settings that may be others when a run is continued."""

ROWS_COMPARED = 1000


def identity(config: TrainConfig, rows: Dataset) -> dict[str, object]:
    """The settings that make a run what it is, by their dotted names, and a digest of its data."""
    # Rows that are drawn anew every epoch are compared as they are before the first.
    rows.start_epoch(0)
    settings = {name: value for name, value in _flat(to_record(config)) if name not in FREE}
    return {**settings, "rows": len(rows), "values": _digest(rows)}


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
    chosen = torch.linspace(0, len(rows) - 1, min(ROWS_COMPARED, len(rows)), dtype=torch.float64).long()
    batch = rows.batch(chosen)
    digest = hashlib.sha256(batch.x.cpu().numpy().tobytes())
    if batch.context is not None:
        digest.update(batch.context.cpu().numpy().tobytes())
    return digest.hexdigest()
