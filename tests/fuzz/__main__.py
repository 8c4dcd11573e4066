"""``python -m fuzz --files 5000`` in the folder of the tests: so many mutated files in all, and a table."""

from __future__ import annotations

import argparse
import sys
import time

from .campaign import run, table
from .kinds import KINDS

SHOWN = 5


def main() -> int:
    """Prints the table and the first faults of each kind; the exit code is 1 if there are any."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--files", type=int, default=5000, help="mutated files in all, shared by the kinds")
    each = -(-parser.parse_args().files // len(KINDS))
    start = time.perf_counter()
    figures = run(each)
    sys.stdout.write(f"{table(figures)}\n{time.perf_counter() - start:.0f} seconds\n")
    for name, one in figures.items():
        for fault in one.faults[:SHOWN]:
            sys.stdout.write(f"\n{name}, {fault}\n")
    return 1 if any(one.faults for one in figures.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
