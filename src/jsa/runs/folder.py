"""The folder of a run: beside the files of its training, configuration, provenance, scores and pictures."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jsa.errors import CheckpointError, UsageError, shortened
from jsa.io.atomic_files import remove_leftovers, write_text
from jsa.io.json_records import from_record, read_json, to_record, write_json
from jsa.io.lock import NAME as LOCK
from jsa.io.lock import locked
from jsa.io.provenance import Provenance
from jsa.runs.config import RunConfig
from jsa.runs.identity import RunIdentity
from jsa.training.folder import TrainingFolder

FORMAT = 4
"""Of config.json, and so of all files of the folder that have no number of their own."""


class RunFolder(TrainingFolder):
    """The files of one run, by name.

    Args:
        path: The folder.
        config: The configuration of the run, which says how it is continued.
    """

    def __init__(self, path: Path, config: RunConfig | None = None) -> None:
        super().__init__(path, _continue_with(path, config))
        self.config = path / "config.json"
        self.provenance = path / "provenance.jsonl"
        self.chains = path / "chains"
        self.events = path / "tensorboard"
        self.rescored = path / "rescored.json"
        self.evaluation = path / "evaluation.json"
        self.samples = path / "samples.png"
        self.reconstructions = path / "reconstructions.png"
        self.sample_table = path / "samples.csv"
        self.curves = path / "curves.png"

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Return the folder of an earlier run, or refuse one of another format."""
        folder = cls(path)
        if not folder.config.is_file():
            raise CheckpointError(f"{path} is not a run folder: it has no config.json")
        return cls(path, folder.read_config())

    def continue_with_setting(self, name: str, value: str) -> str:
        """Return what a person does to continue the training with another value of a setting."""
        if not self.continue_with.startswith("jsa "):
            return super().continue_with_setting(name, value)
        return f"{self.continue_with} --{name.replace('_', '-')} {value}"

    @property
    def outputs(self) -> list[Path]:
        """The files for people that there are: pictures, or a table for rows that are not images."""
        drawn = (self.samples, self.reconstructions, self.sample_table, self.curves)
        return [path for path in drawn if path.is_file()]

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        if not self.evaluation.is_file():
            return False
        config, known = self.read_config(), RunIdentity.read(self.path)
        if not config.output.pictures:
            return True
        expected = [self.curves]
        # What else there is of an own model, only drawing tells.
        if config.network is not None and known is not None and known.shape is not None:
            pictures = known.shape.image_shape is not None
            expected += [self.samples, self.reconstructions] if pictures else [self.sample_table]
        return all(path.is_file() for path in expected)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Make the folder if there is none, and keep other processes out of it."""
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with locked(self.path):
                yield
        finally:
            # A folder in which nothing could be written is not left behind.
            with suppress(OSError):
                self.path.rmdir()

    def begin(self, config: RunConfig) -> None:
        """Make the folder and write the configuration of a new run; the folder of another run is refused."""
        refuse_existing(self.path)
        self.path.mkdir(parents=True, exist_ok=True)
        self.write_config(config)

    def prepare_to_continue(self) -> None:
        """Remove what a killed process left half-done; a run without a state begins again."""
        remove_leftovers(self.path)
        if self.state.is_file():
            return
        if self.best.is_file():
            # The state is always written before the best weights.
            raise CheckpointError(
                f"{self.path} has weights but no {self.state.name}, so it cannot be continued: begin a new run in "
                "another folder"
            )
        for path in (self.metrics, self.last):
            path.unlink(missing_ok=True)
        for path in (self.leading, self.snapshots, self.chains, self.events):
            shutil.rmtree(path, ignore_errors=True)

    def write_config(self, config: RunConfig) -> None:
        """Write the configuration, in which nothing is left open."""
        write_json(self.config, {"format": FORMAT, **to_record(config)})

    def read_config(self) -> RunConfig:
        """Read the configuration of the run."""
        return read_config(self.config)

    def add_provenance(self, versions: Provenance) -> None:
        """Record the versions that begin or continue the run, unless they are the same as before."""
        line = json.dumps(to_record(versions)) + "\n"
        self.read_provenance()
        before = self.provenance.read_text(encoding="utf-8") if self.provenance.is_file() else ""
        if not before.endswith(line):
            write_text(self.provenance, before + line)

    def read_provenance(self) -> list[Provenance]:
        """Return the versions that began and continued the run, in this order."""
        if not self.provenance.is_file():
            return []
        try:
            lines = self.provenance.read_text(encoding="utf-8").splitlines()
            # A file that was begun has a line: ``add_provenance`` writes it whole or not at all.
            return [from_record(Provenance, json.loads(line)) for line in lines or [""]]
        except (ValueError, RecursionError, UsageError) as error:
            raise CheckpointError(f"{self.provenance} is damaged ({shortened(error)}): mend or remove it") from error


def read_config(path: Path, *, by_hand: bool = False) -> RunConfig:
    """Read a configuration that a run wrote, in which every field must be present.

    Args:
        path: The file.
        by_hand: Whether a file without a format number is accepted, in which a missing field has its default.
    """
    record = read_json(path)
    complete = True
    if isinstance(record, dict):
        complete = "format" in record or not by_hand
        found = record.pop("format", None)
        if complete and found is None:
            raise CheckpointError(
                f"{path} has no format number: jsa 0.1.0 wrote it and reads it, while this version reads format "
                f"{FORMAT}; use that version, or begin a new run"
            )
        if complete and found != FORMAT:
            raise CheckpointError(
                f"{path} has format {shortened(found)} and this version of jsa reads {FORMAT}: use the version that "
                "wrote it, or begin a new run"
            )
    try:
        return from_record(RunConfig, record, complete=complete)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def _continue_with(path: Path, config: RunConfig | None) -> str:
    """Return what a person does to continue a run."""
    if config is not None and config.has_own_rows:
        return "the same call of jsa.fit"
    own = (("model", config.has_own_model), ("estimator", config.has_own_estimator)) if config is not None else ()
    flags = "".join(f" --{name} {shlex.quote(getattr(config, name))}" for name, is_own in own if is_own)
    return f"jsa resume {shlex.quote(str(path))}{flags}"


def refuse_existing(path: Path) -> None:
    """Refuse a folder with anything in it, which is somebody's work; a lock is not, for the system tells who has it."""
    if path.is_file() or (path.is_dir() and any(inside.name != LOCK for inside in path.iterdir())):
        raise UsageError(f"{path} exists already: choose another --out, or move the old one away")


def unused(path: Path) -> Path:
    """Return the path itself if nothing is there, else the first of path-2, path-3, ... that is free."""
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate
