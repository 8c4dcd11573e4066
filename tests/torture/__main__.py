"""Kills runs at many places and moments, continues them, and compares them with runs that were left in peace.

``make torture`` runs it whole; with ``--few`` it takes a handful of places, for the ordinary tests.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from pathlib import Path

# Everything is imported before the first fork, so that no process pays for it again.
import jsa.runs.build  # noqa: F401
from jsa.runs.plots import save_curves
from torture.kills import Kill, Line, Torture, moments
from torture.plan import checkpoint_kills, final_kills, generation_kills, stage_two_kills, switch_kills

RANDOM_MOMENTS = 15
FEW = (
    Kill("in a checkpoint", "state.safetensors-half:4"),
    Kill("in a checkpoint", "state.safetensors-renamed:20"),
    Kill("at the switch", "switch:1", seconds=30.0),
    Kill("in stage II", "step-in-stage-two:4", seconds=0.02),
)
FEW_ON_DISK = (Kill("in a generation", "generation-written:25"), Kill("in a generation", "generation-made:3"))


def main(arguments: list[str]) -> int:
    """Runs all kills, says what came of each, and prints the table; the exit code is 1 where anything went wrong."""
    few = "--few" in arguments
    plans = (
        {False: list(FEW), True: list(FEW_ON_DISK)} if few else {on_disk: plan(on_disk) for on_disk in (False, True)}
    )
    total = sum(len(planned) for planned in plans.values())
    judged = 0
    table: dict[str, Line] = defaultdict(Line)
    with tempfile.TemporaryDirectory() as folder:
        # A first drawing takes as long as a whole run of this size; it starts no thread that a fork would lose.
        save_curves(Path(folder) / "first.png", [{"epoch": 1, "objective": -1.0, "acceptance": 0.5}])
        for on_disk, planned in plans.items():
            torture = Torture(Path(folder) / ("disk" if on_disk else "memory"), on_disk)
            for kill in planned:
                kind = f"{kill.kind}, chains {'on disk' if on_disk else 'in memory'}"
                outcome = torture.suffer(kill, table[kind])
                judged += 1
                sys.stdout.write(f"{judged}/{total} {kind}: {kill.when} -> {outcome}\n")
                # It takes minutes: whoever waits sees each kill at once, through a pipe too.
                sys.stdout.flush()
    return report(table)


def plan(on_disk: bool) -> list[Kill]:
    """All kills of a run with its chains here or there."""
    injected = [*checkpoint_kills(), *stage_two_kills(), *switch_kills(), *final_kills()]
    return [
        *injected,
        *(generation_kills() if on_disk else []),
        *moments(RANDOM_MOMENTS, "at random", seed=int(on_disk)),
    ]


def report(table: dict[str, Line]) -> int:
    """Writes what came of it."""
    lines = [f"{'kind':40} {'kills':>6} {'lost':>6} {'different':>10}"]
    lines += [f"{kind:40} {line.kills:6} {line.lost:6} {line.different:10}" for kind, line in table.items()]
    wrong = 0
    for kind, line in table.items():
        wrong += line.lost + line.different + len(line.missed)
        lines += [f"{kind}: {example}" for example in line.examples]
        lines += [f"{kind}: {place} was never passed" for place in line.missed]
    sys.stdout.write("\n".join(lines) + "\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
