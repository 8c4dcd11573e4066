"""``python -m benchmarks``: measures, prints the table, writes the file; or compares with a file of before.

One thread is used but where two are measured. Other work on the machine makes everything slower, the step more than
its floor: measure on a quiet one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.compiled import compiled
from benchmarks.denormals import denormals
from benchmarks.evaluation import gathering, nll
from benchmarks.memory import peaks
from benchmarks.projection import projections
from benchmarks.report import HEADER, Measurement, comparison, load, save
from benchmarks.settings import SETTINGS, Setting, digits
from benchmarks.steps import differentiating_all, scaling, steps, threads
from benchmarks.workload import train_for_a_while

RESULTS = Path("results/bench.json")


def main() -> None:
    """Measures as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--settings", nargs="+", choices=[setting.name for setting in SETTINGS])
    parser.add_argument("--out", type=Path, help="write the measurements to this file")
    parser.add_argument("--compare", type=Path, help="show what changed since this file")
    parser.add_argument("--with-compile", action="store_true", help="also measure torch.compile, which takes minutes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    before = load(arguments.compare) if arguments.compare else None
    measurements = []
    print(HEADER)
    for setting in SETTINGS:
        if arguments.settings and setting.name not in arguments.settings:
            continue
        for measurement in measure(setting, with_compile=arguments.with_compile):
            print(measurement, flush=True)
            measurements.append(measurement)
    print("\nTable 1 of the paper, projected:")
    print("\n".join(projections(measurements)))
    if arguments.out:
        save(measurements, arguments.out, " ".join(["python -m benchmarks", *sys.argv[1:]]), _commit())
    if before is not None:
        print(f"\nsince {arguments.compare}:")
        print("\n".join(comparison(before, measurements)))


def measure(setting: Setting, *, with_compile: bool = False) -> Iterator[Measurement]:
    """All measurements of a setting."""
    trained = train_for_a_while(setting, digits(setting))
    yield from steps(trained)
    yield from nll(trained)
    yield from threads(trained)
    yield from scaling(trained)
    if setting.particles >= 20:
        yield from differentiating_all(trained)
    if setting.name == "categorical":
        yield from gathering(setting)
        yield from denormals(trained)
    if with_compile:
        yield from compiled(trained)
    yield from peaks(setting)


def _commit() -> str:
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip()


if __name__ == "__main__":
    main()
