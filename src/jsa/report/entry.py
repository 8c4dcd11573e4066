"""One run as shown on a page, whatever its source."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from jsa.errors import UsageError
from jsa.evaluation.results import Likelihood
from jsa.report.styles import Style
from jsa.runs.config import RunConfig

SIGNATURE = b"\x89PNG\r\n\x1a\n"
LARGEST = 8 << 20
"""The size of the largest picture on a page, in bytes."""


@dataclass(frozen=True)
class Picture:
    """A picture: a title, and the content as a data URL."""

    title: str
    address: str


def read_picture(title: str, path: Path) -> Picture:
    """Read a picture from an untrusted PNG file."""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if not content.startswith(SIGNATURE):
        raise UsageError(f"{path} is not a PNG picture: remove it or draw it again")
    if len(content) > LARGEST:
        raise UsageError(f"{path} has more than {LARGEST} bytes: remove it or draw a smaller one")
    return Picture(title, "data:image/png;base64," + base64.b64encode(content).decode("ascii"))


Track = Mapping[str, Sequence[float | None]]
"""Figures of a run over time, by name and of equal length, with None for a missing figure."""

CURVE_FIGURES = (
    *("epoch", "training_seconds", "processor_seconds", "decoder_evaluations"),
    *("valid_nll", "train_nll", "test_nll"),
    *("acceptance", "chain_age", "frozen_share"),
)
"""The figures of a curve at each epoch."""


@dataclass(frozen=True)
class Entry:
    """A run.

    Attributes:
        label: A name that is unique in its group.
        series: The name of its curves in a legend; runs of the same method may share it.
        group: The chart of its curves; the NLLs of one group are comparable.
        config: Its settings.
        command: The command that repeats it.
        style: The style of the series; if None, a free one is chosen.
        curve: Figures by epoch: the axes and the lines of :mod:`jsa.report.charts`.
        variance: The variance of the gradients at some epochs.
        switch_epoch: The last epoch of stage I, if there is a second stage.
        best_epoch, valid_nll, valid_samples, test: For a finished run, the tested epoch, its NLL on the validation
            rows with the samples per row, and its likelihood on the test rows.
        training_seconds, processor_seconds, decoder_evaluations: The cost of the training.
        commit: The commit of the program.
        pictures: Its pictures.
        unfinished: The progress of an unfinished run.
        remark: A warning about its figures.
    """

    label: str
    series: str
    group: str
    config: RunConfig
    command: str
    style: Style | None = None
    curve: Track = field(default_factory=dict)
    variance: Track = field(default_factory=dict)
    switch_epoch: int | None = None
    best_epoch: int | None = None
    valid_nll: float | None = None
    valid_samples: int | None = None
    test: Likelihood | None = None
    training_seconds: float | None = None
    processor_seconds: float | None = None
    decoder_evaluations: int | None = None
    commit: str | None = None
    pictures: tuple[Picture, ...] = ()
    unfinished: str | None = None
    remark: str | None = None


def groups(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Return the runs by group, in the order of first appearance."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.group, []).append(entry)
    return found


def sets_of_seeds(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the tested runs of all settings with two or more seeds. A seed that was run twice counts once."""
    found: dict[object, dict[int, Entry]] = {}
    for entry in entries:
        if entry.test is not None:
            same = entry.group, entry.test.samples, repr(replace(entry.config, seed=0))
            found.setdefault(same, {}).setdefault(entry.config.seed, entry)
    return [list(by_seed.values()) for by_seed in found.values() if len(by_seed) > 1]
