"""``python -m benchmarks``: measure, print the table and write the file, or compare with an earlier file.

All but the measurements of two threads use one thread. Other load on the machine slows down a step more than its floor:
measure on a quiet one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from benchmarks.compiled import compiled
from benchmarks.denormals import denormals
from benchmarks.evaluation import gathering, nll
from benchmarks.memory import peaks
from benchmarks.projection import projections
from benchmarks.report import HEADER, Measurement, comparison, load, pooled, save
from benchmarks.settings import SETTINGS, Setting, digits
from benchmarks.steps import differentiating_all, scaling, steps, threads
from benchmarks.workload import Trained, train_for_a_while

PASSES = 3


def main() -> None:
    """Run the benchmarks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--settings", nargs="+", choices=[setting.name for setting in SETTINGS])
    parser.add_argument("--out", type=Path, help="write the measurements to this file")
    parser.add_argument("--compare", type=Path, help="show what changed since this file")
    parser.add_argument("--with-compile", action="store_true", help="also measure torch.compile, which takes minutes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    before = load(arguments.compare) if arguments.compare else None
    settings = [setting for setting in SETTINGS if not arguments.settings or setting.name in arguments.settings]
    measurements = pooled(measure_all(settings, with_compile=arguments.with_compile))
    print("\n".join(["", HEADER, *map(str, measurements)]))
    print("\nTable 1 of the paper, projected:")
    print("\n".join(projections(measurements)))
    if arguments.out:
        save(measurements, arguments.out, " ".join(["python -m benchmarks", *sys.argv[1:]]), _commit())
    if before is not None:
        print(f"\nsince {arguments.compare}:")
        print("\n".join(comparison(before, measurements)))


def measure_all(settings: Sequence[Setting], *, with_compile: bool) -> Iterator[Measurement]:
    """Yield all measurements; ratios of times are measured in each of several passes."""
    trained = []
    for setting in settings:
        print(f"training {setting.name}", flush=True)
        trained.append(train_for_a_while(setting, digits(setting)))
    for number in range(1, PASSES + 1):
        for one in trained:
            print(f"pass {number} of {PASSES}: {one.setting.name}", flush=True)
            yield from ratios(one)
    for one in trained:
        print(f"memory{' and compilation' if with_compile else ''}: {one.setting.name}", flush=True)
        if with_compile:
            yield from compiled(one)
        yield from peaks(one.setting)


def ratios(trained: Trained) -> Iterator[Measurement]:
    """Yield one pass over all timings of a setting."""
    yield from steps(trained)
    yield from nll(trained)
    yield from threads(trained)
    yield from scaling(trained)
    if trained.setting.particles >= 20:
        yield from differentiating_all(trained)
    if trained.setting.name == "categorical":
        yield from gathering(trained.setting)
        yield from denormals(trained)


def _commit() -> str:
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip()


if __name__ == "__main__":
    main()
