"""The folder of a run: configuration, metrics, checkpoints, pictures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from jsa.configuration import TrainConfig
from jsa.errors import CheckpointError, UsageError
from jsa.files import write_text
from jsa.records import from_record, read_json, to_record


class RunFolder:
    """The files of one run, by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.json"
        self.metrics = path / "metrics.jsonl"
        self.best = path / "best.safetensors"
        self.last = path / "last.safetensors"
        self.chains = path / "chains.safetensors"
        self.mapped_chains = path / "chains"
        self.evaluation = path / "evaluation.json"

    @classmethod
    def create(cls, path: Path, config: TrainConfig) -> RunFolder:
        """A new folder with its configuration; an existing one is refused, so that no run is overwritten."""
        refuse_existing(path)
        folder = cls(path)
        folder.begin(config)
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The folder of an earlier run."""
        folder = cls(path)
        if not folder.config.is_file():
            raise CheckpointError(f"{path} is not a run folder: it has no config.json")
        return folder

    def begin(self, config: TrainConfig) -> None:
        """Makes the folder and writes the configuration."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_text(self.config, json.dumps(to_record(config), indent=2) + "\n")

    def read_config(self) -> TrainConfig:
        """The configuration of the run."""
        return from_record(TrainConfig, read_json(self.config))

    def log(self, record: Mapping[str, object]) -> None:
        """Adds a line to the metrics."""
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def read_metrics(self) -> Iterator[dict[str, float]]:
        """The lines of the metrics."""
        if self.metrics.is_file():
            with self.metrics.open(encoding="utf-8") as file:
                for line in file:
                    yield json.loads(line)


def refuse_existing(path: Path) -> None:
    """A folder with anything in it is somebody's work."""
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise UsageError(f"{path} exists already: choose another --out, or move the old one away")


def unused(path: Path) -> Path:
    """The path itself where nothing is there, else the first of path-2, path-3, ... that is free."""
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate
