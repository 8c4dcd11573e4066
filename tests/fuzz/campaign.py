"""Many mutated files, and a table of how opening them ended."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .kinds import KINDS

TESTS = Path(__file__).resolve().parents[1]
OUTCOMES = ("refused", "equal", "different", "mistaken", "crash")
"""Mistaken is what loads as something else although a checksum should have told; the last two are faults."""


@dataclass
class Figures:
    """How opening the files of one kind ended, and what is wrong about it."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    longest_sentence: int = 0


def run(files: int) -> dict[str, Figures]:
    """Opens so many mutated files of every kind."""
    figures = {kind.name: Figures() for kind in KINDS}
    kind, first = 0, 0
    while kind < len(KINDS):
        done = _work(kind, first, files, figures)
        if done is None:
            return figures
        # The process died over this file: it counts as a crash, and another one goes on behind it.
        kind, number = done
        figures[KINDS[kind].name].counts["crash"] += 1
        figures[KINDS[kind].name].faults.append(f"file {number}: the process died")
        kind, first = (kind, number + 1) if number + 1 < files else (kind + 1, 0)
    return figures


def _work(kind: int, first: int, files: int, figures: dict[str, Figures]) -> tuple[int, int] | None:
    """Follows one process; the file over which it died, or None if it came to the end."""
    command = [sys.executable, "-m", "fuzz.worker", str(kind), str(first), str(files)]
    at: tuple[int, int] | None = None
    with subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            place, number, outcome, detail = json.loads(line)
            at = place, number
            if outcome != "start":
                _count(number, outcome, detail, figures[KINDS[place].name])
    if process.returncode and at is None:
        raise RuntimeError(f"{' '.join(command)} failed before the first file")
    return at if process.returncode else None


def _count(number: int, outcome: str, detail: str, figures: Figures) -> None:
    figures.counts[outcome] += 1
    if outcome in ("mistaken", "crash"):
        figures.faults.append(f"file {number}: {outcome}\n{detail}")
    if outcome == "refused":
        figures.longest_sentence = max(figures.longest_sentence, len(detail))


def table(figures: dict[str, Figures]) -> str:
    """The counts, a line a kind."""
    names = ("files", "clear errors", "equal", "different", "mistaken", "crashes", "checksummed")
    lines = [f"{'kind':24} " + " ".join(f"{name:>12}" for name in names)]
    total: Counter[str] = Counter()
    for kind in KINDS:
        counts = figures[kind.name].counts
        total += counts
        lines.append(_line(kind.name, counts, "yes" if kind.checksummed else "no"))
    return "\n".join([*lines, _line("all", total, "")])


def _line(name: str, counts: Counter[str], checksummed: str) -> str:
    numbers = [counts.total(), *(counts[outcome] for outcome in OUTCOMES)]
    return f"{name:24} " + " ".join(f"{number:>12}" for number in (*numbers, checksummed))
