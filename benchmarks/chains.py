"""Chains on disk of many rows: memory, time of a step, time of a checkpoint, size of the file.

    python benchmarks/chains.py --rows 100000 10000000 --folder /var/tmp

The folder should be on a real disk.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from jsa import ChainCache, LatentSpace, Layer
from jsa.chains import frozen_chains

SPACE = LatentSpace.of(Layer("bernoulli", 200))


def resident() -> float:
    """Return the resident megabytes of this process, without pages of files."""
    fields = (line.split() for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines())
    return next(int(field[1]) / 1024 for field in fields if field[0] == "RssAnon:")


def seconds(action: Callable[[], object]) -> float:
    """Return the duration of an action."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def step(cache: ChainCache, rows: torch.Tensor, h: torch.Tensor, moved: torch.Tensor) -> None:
    """Access the chains of a batch as a training step does."""
    cache.read(rows)
    cache.write(rows, h, moved)
    cache.age(rows)


def random_rows(cache: ChainCache, batch: int) -> torch.Tensor:
    """Return distinct random rows of the cache."""
    rows = torch.randint(cache.rows, (2 * batch,)).unique()
    return rows[torch.randperm(len(rows))[:batch]]


def timed_steps(cache: ChainCache, batch: int, steps: int) -> list[float]:
    """Return the durations of steps with random rows."""
    h, moved = torch.randint(2, (batch, 200)).float(), torch.rand(batch) < 0.5
    visits = [random_rows(cache, batch) for _ in range(steps)]
    return [seconds(functools.partial(step, cache, rows, h, moved)) for rows in visits]


def measure(rows: int, folder: Path, batch: int, steps: int, checkpoints: Sequence[int]) -> None:
    """Print the figures of a cache with this number of rows."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    # The first use of each operation is slow, and takes memory that has nothing to do with the chains.
    timed_steps(ChainCache(SPACE, 1000), 10, 10)
    timed_steps(ChainCache(SPACE, 1000, folder / "warm"), 10, 10)
    before = resident()
    making = seconds(lambda: ChainCache(SPACE, rows, folder / "chains"))
    opening = time.perf_counter()
    cache = ChainCache(SPACE, rows, folder / "chains")
    opening = time.perf_counter() - opening
    print(f"\n{rows:,} rows of 200 bits, {rows * cache.bytes_per_row / 1e6:.1f} MB of records")
    print(f"  made in {making:.2f} s, opened in {opening * 1e3:.1f} ms; file: {size(folder) / 1e6:.1f} MB")
    for name in ("new rows", "again"):
        processor = time.process_time()
        times = timed_steps(cache, batch, steps)
        processor = time.process_time() - processor
        low, middle, high = statistics.quantiles(times, n=4)
        print(
            f"  step of {batch} random rows, {name}: {middle * 1e6:.0f} us (quartiles {low * 1e6:.0f} and "
            f"{high * 1e6:.0f}), of the processor {processor / steps * 1e6:.0f} us with the drawing of the rows"
        )
        print(f"  memory before the checkpoint: {resident() - before:.1f} MB")
        cache.commit()
    print(f"  {'rows written':>14} {'checkpoint':>13} {'a row':>10}")
    h, moved = torch.ones(batch, 200), torch.ones(batch, dtype=torch.bool)
    for touched in checkpoints:
        for _ in range(touched // batch):
            cache.write(random_rows(cache, batch), h, moved)
        taken = seconds(cache.commit)
        print(f"  {touched:14,} {taken * 1e3:10.1f} ms {taken / touched * 1e6:7.1f} us")
    print(f"  memory after the checkpoints: {resident() - before:.1f} MB; file: {size(folder) / 1e6:.1f} MB")
    counting = seconds(lambda: print(f"  rows with a chain: {frozen_chains(cache).visited:,}", end=""))
    print(f", looked through for frozen ones in {counting:.2f} s")


def size(folder: Path) -> int:
    """Return the bytes that the chains take on the disk."""
    return sum(path.stat().st_blocks for path in (folder / "chains").iterdir()) * 512


def main() -> None:
    """Measure caches of the sizes on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**5, 10**7])
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--touched", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000])
    arguments = parser.parse_args()
    for rows in arguments.rows:
        with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="chains-") as folder:
            # In a process of its own, so that memory of one size is not counted for the next.
            process = multiprocessing.get_context("spawn").Process(
                target=measure, args=(rows, Path(folder), arguments.batch, arguments.steps, arguments.touched)
            )
            process.start()
            process.join()


if __name__ == "__main__":
    main()
