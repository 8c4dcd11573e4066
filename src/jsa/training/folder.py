"""The files that a training writes: its state, weights and metrics. Nothing here needs torch."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from jsa.errors import CheckpointError
from jsa.io.atomic_files import flush, replacing
from jsa.io.fault_injection import crash_point
from jsa.io.json_records import read_number_lines


class TrainingFolder:
    """The files of one training, by name. All others are made from the state.

    Args:
        path: The folder.
        continue_with: What a person does to continue the training, for errors.
    """

    def __init__(self, path: Path, continue_with: str = "the same call") -> None:
        self.path = path
        self.continue_with = continue_with
        self.state = path / "state.safetensors"
        self.best = path / "best.safetensors"
        self.last = path / "last.safetensors"
        self.leading = path / "leading"
        self.snapshots = path / "snapshots"
        self.metrics = path / "metrics.jsonl"

    def continue_with_setting(self, name: str, value: str) -> str:
        """Return what a person does to continue the training with another value of a setting."""
        return f"{self.continue_with} with {name}={value}"

    def leading_epoch(self, epoch: int) -> Path:
        """Return the file of the weights of a leading epoch, if more than the best one is kept."""
        return self.leading / f"epoch-{epoch}.safetensors"

    def keep_leading(self, epochs: Collection[int]) -> None:
        """Remove the weights of epochs that no longer lead."""
        kept = {self.leading_epoch(epoch) for epoch in epochs}
        for path in self.leading.glob("epoch-*.safetensors"):
            if path not in kept:
                path.unlink()

    def snapshot(self, epoch: int) -> Path:
        """Return the file of the state at the end of an epoch, if snapshots are taken."""
        return self.snapshots / f"epoch-{epoch}.safetensors"

    def take_snapshot(self, epoch: int) -> None:
        """Copy the state file."""
        self.snapshots.mkdir(exist_ok=True)
        with replacing(self.snapshot(epoch)) as temporary:
            shutil.copyfile(self.state, temporary)

    def cut_metrics(self, length: int) -> None:
        """Drop lines of metrics that the state does not know of, and a torn one."""
        if length == 0 and not self.metrics.exists():
            return
        if not self.metrics.is_file() or self.metrics.stat().st_size < length:
            raise CheckpointError(
                f"{self.metrics} is shorter than the checkpoint says: put back the whole file, or begin a new run"
            )
        os.truncate(self.metrics, length)
        flush(self.metrics)

    def log(self, record: Mapping[str, object], start: int) -> int:
        """Write a line of metrics after the first ``start`` bytes, in place of what was there.

        Returns:
            The new length of the file in bytes.
        """
        crash_point("metrics-begin")
        line = (json.dumps(record) + "\n").encode()
        with self.metrics.open("ab") as file:
            file.truncate(start)
            file.write(line[:-20])
            file.flush()
            crash_point("metrics-half")
            file.write(line[-20:])
            file.flush()
            flush(self.metrics)
        crash_point("metrics-written")
        return start + len(line)

    def read_metrics(self) -> Iterator[dict[str, float]]:
        """Yield the lines of the metrics, except a last one that a crash left incomplete."""
        if self.metrics.is_file():
            yield from read_number_lines(self.metrics)
