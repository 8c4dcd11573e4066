"""The folder of a run: configuration, metrics, checkpoints, pictures."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from jsa.errors import CheckpointError, UsageError, shortened
from jsa.io.atomic_files import flush, remove_leftovers, replacing, write_text
from jsa.io.fault_injection import crash_point
from jsa.io.json_records import from_record, read_number_lines, read_record, to_record
from jsa.io.lock import NAME as LOCK
from jsa.io.lock import locked
from jsa.io.provenance import Provenance
from jsa.runs.config import TrainConfig


class RunFolder:
    """The files of one run, by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.json"
        self.metrics = path / "metrics.jsonl"
        self.provenance = path / "provenance.jsonl"
        self.state = path / "state.safetensors"
        self.best = path / "best.safetensors"
        self.last = path / "last.safetensors"
        self.leading = path / "leading"
        self.snapshots = path / "snapshots"
        self.mapped_chains = path / "chains"
        self.events = path / "tensorboard"
        self.rescored = path / "rescored.json"
        self.evaluation = path / "evaluation.json"
        self.samples = path / "samples.png"
        self.reconstructions = path / "reconstructions.png"
        self.sample_table = path / "samples.csv"
        self.curves = path / "curves.png"

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The folder of an earlier run."""
        folder = cls(path)
        if not folder.config.is_file():
            raise CheckpointError(f"{path} is not a run folder: it has no config.json")
        return folder

    def outputs(self, *, pictures: bool) -> list[Path]:
        """What a run leaves for people, whose rows are pictures or a table."""
        return [*([self.samples, self.reconstructions] if pictures else [self.sample_table]), self.curves]

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Makes the folder where it is not there, and keeps other processes out of it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path):
            yield

    def begin(self, config: TrainConfig) -> None:
        """Makes the folder and writes the configuration of a new run; that of another run is refused."""
        refuse_existing(self.path)
        self.path.mkdir(parents=True, exist_ok=True)
        self.write_config(config)

    def prepare_to_continue(self) -> None:
        """Removes what a killed process left half-done; a run without any state begins again."""
        remove_leftovers(self.path)
        if self.state.is_file():
            return
        if self.best.is_file():
            # The state is always written before the best weights.
            raise CheckpointError(
                f"{self.path} has weights but no {self.state.name}, so it cannot be continued: begin a new run with "
                f"jsa train --config {shlex.quote(str(self.config))}"
            )
        for path in (self.metrics, self.last):
            path.unlink(missing_ok=True)
        for path in (self.leading, self.snapshots, self.mapped_chains, self.events):
            shutil.rmtree(path, ignore_errors=True)

    def write_config(self, config: TrainConfig) -> None:
        """Writes the configuration."""
        write_text(self.config, json.dumps(to_record(config), indent=2) + "\n")

    def read_config(self) -> TrainConfig:
        """The configuration of the run."""
        return read_record(TrainConfig, self.config)

    @property
    def resume_command(self) -> str:
        """How a person continues this run."""
        return f"jsa train --resume {shlex.quote(str(self.path))}"

    def add_provenance(self, versions: Provenance) -> None:
        """Writes down with what the run is begun or continued, unless that is the same as before."""
        line = json.dumps(to_record(versions)) + "\n"
        before = self.provenance.read_text(encoding="utf-8") if self.provenance.is_file() else ""
        if not before.endswith(line):
            write_text(self.provenance, before + line)

    def read_provenance(self) -> list[Provenance]:
        """With what the run was begun and continued, in this order; runs of earlier versions do not know it."""
        if not self.provenance.is_file():
            return []
        try:
            lines = self.provenance.read_text(encoding="utf-8").splitlines()
            # A file that was begun has a line: ``add_provenance`` writes it whole or not at all.
            return [from_record(Provenance, json.loads(line)) for line in lines or [""]]
        except (ValueError, RecursionError, UsageError) as error:
            raise CheckpointError(f"{self.provenance} is damaged ({shortened(error)}): mend or remove it") from error

    def leading_epoch(self, epoch: int) -> Path:
        """Where the weights of a leading epoch are, where more than the best one is kept."""
        return self.leading / f"epoch-{epoch}.safetensors"

    def keep_leading(self, epochs: Collection[int]) -> None:
        """Removes the weights of epochs that lead no more."""
        kept = {self.leading_epoch(epoch) for epoch in epochs}
        for path in self.leading.glob("epoch-*.safetensors"):
            if path not in kept:
                path.unlink()

    def snapshot(self, epoch: int) -> Path:
        """Where the state at the end of an epoch is, where snapshots are taken."""
        return self.snapshots / f"epoch-{epoch}.safetensors"

    def take_snapshot(self, epoch: int) -> None:
        """Keeps the state as it now is in its file."""
        self.snapshots.mkdir(exist_ok=True)
        with replacing(self.snapshot(epoch)) as temporary:
            shutil.copyfile(self.state, temporary)

    def log(self, record: Mapping[str, object], start: int) -> int:
        """Writes a line of metrics behind the first ``start`` bytes, in place of whatever stood there.

        Returns:
            The number of bytes behind it.
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

    def cut_metrics(self, length: int) -> None:
        """Drops the lines of metrics that a state does not know of, and a torn one."""
        if length == 0 and not self.metrics.exists():
            return
        if not self.metrics.is_file() or self.metrics.stat().st_size < length:
            raise CheckpointError(
                f"{self.metrics} is shorter than the checkpoint says: put back the whole file, or begin a new run"
            )
        os.truncate(self.metrics, length)
        flush(self.metrics)

    def read_metrics(self) -> Iterator[dict[str, float]]:
        """The lines of the metrics; a last one that was torn by a crash is left out."""
        if self.metrics.is_file():
            yield from read_number_lines(self.metrics)


def refuse_existing(path: Path) -> None:
    """A folder with anything in it is somebody's work; a lock is not, for the system tells whether it is held."""
    if path.is_file() or (path.is_dir() and any(inside.name != LOCK for inside in path.iterdir())):
        raise UsageError(f"{path} exists already: choose another --out, or move the old one away")


def unused(path: Path) -> Path:
    """The path itself where nothing is there, else the first of path-2, path-3, ... that is free."""
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate
