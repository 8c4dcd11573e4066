"""Measurements as a table, as a file, and compared with earlier ones."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import torch

from benchmarks.timing import Spread

SLOWER = 1.1
"""An increase below this, or within the spread, is noise."""


@dataclass(frozen=True)
class Measurement:
    """One row of the table: a ratio, or a share, or a size, with its spread.

    Attributes:
        group: The kind of measurement.
        setting: The model.
        name: The measured quantity.
        unit: The quantity of which the value is a multiple.
        spread: The value.
        notes: Further figures that explain it.
    """

    group: str
    setting: str
    name: str
    unit: str
    spread: Spread
    notes: dict[str, float] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity of the measurement, for comparison with an earlier one."""
        return self.group, self.setting, self.name

    def __str__(self) -> str:
        value = f"{self.spread.median:8.2f} [{self.spread.low:6.2f} {self.spread.high:6.2f}]"
        notes = ", ".join(f"{name} {number:.3g}" for name, number in self.notes.items())
        return f"{self.group:11} {self.setting:14} {self.name:30} {value} {self.unit:22} {notes}"


HEADER = f"{'kind':11} {'setting':14} {'what':30} {'median':>8} [quartiles    ] {'unit':22} notes"


def save(measurements: Sequence[Measurement], path: Path, command: str, commit: str) -> None:
    """Write measurements and a description of the machine."""
    record = {
        "command": command,
        "commit": commit,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "measurements": [_record(measurement) for measurement in measurements],
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def pooled(passes: Iterable[Measurement]) -> list[Measurement]:
    """Pool the measurements of several passes: the spread of all values, the medians of the notes.

    The speed of a shared machine changes from minute to minute, so a single pass would be unrepresentative.
    """
    by_key: dict[tuple[str, str, str], list[Measurement]] = {}
    for measurement in passes:
        by_key.setdefault(measurement.key, []).append(measurement)
    return [_pooled(same) for same in by_key.values()]


def _pooled(same: Sequence[Measurement]) -> Measurement:
    values = [value for measurement in same for value in measurement.spread.values]
    notes = {name: median(measurement.notes[name] for measurement in same) for name in same[0].notes}
    return replace(same[0], spread=Spread.of(values) if values else same[0].spread, notes=notes)


def _record(measurement: Measurement) -> dict[str, object]:
    spread = measurement.spread
    return vars(measurement) | {"spread": {"median": spread.median, "low": spread.low, "high": spread.high}}


def load(path: Path) -> list[Measurement]:
    """Read measurements."""
    rows = json.loads(path.read_text(encoding="utf-8"))["measurements"]
    return [Measurement(**{**row, "spread": Spread(**row["spread"])}) for row in rows]


def comparison(before: Iterable[Measurement], now: Iterable[Measurement]) -> list[str]:
    """Return a line for each common measurement, and those that got worse by more than the spread."""
    old = {measurement.key: measurement for measurement in before}
    lines = []
    for measurement in now:
        if measurement.key not in old:
            continue
        first, second = old[measurement.key].spread, measurement.spread
        factor = second.median / first.median if first.median else float("nan")
        verdict = ""
        if factor > SLOWER and second.low > first.high:
            verdict = "WORSE"
        elif factor < 1 / SLOWER and second.high < first.low:
            verdict = "better"
        group, setting, name = measurement.key
        lines.append(
            f"{group:11} {setting:14} {name:30} {first.median:8.2f} -> {second.median:8.2f} {measurement.unit:22} "
            f"x {factor:.2f} {verdict}"
        )
    return lines
