"""A process that writes chains on disk and checkpoints them, and is killed at a chosen place.

It runs as a program: it forks a process for each place, so that torch is loaded once for all of them.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

import jsa.chains.cache
from helpers.kills import forked
from helpers.latent_spaces import random_states
from jsa import ChainCache, LatentSpace, Layer
from jsa.chains.database import DatabaseStorage
from jsa.io.tensor_files import load_tensors, save_tensors

SPACE = LatentSpace.of(Layer("bernoulli", 9), Layer("categorical", 2, classes=3), Layer("gaussian", 2))
ROWS = 60
GENERATIONS = 3
STEPS = 4
BATCH = 10


class WritesAtOnce(DatabaseStorage):
    """Known to be wrong: what is written between checkpoints goes to the file."""

    def write(self, rows: torch.Tensor, states: torch.Tensor, times: torch.Tensor) -> None:
        super().write(rows, states, times)
        self._connection.executemany("REPLACE INTO chains VALUES (?, ?)", sorted(self._overlay.items()))


class KeepsNothing(DatabaseStorage):
    """Known to be wrong: it cannot go back to the checkpoint of the state file in place."""

    def state_dict(self) -> dict[str, torch.Tensor]:
        saved = super().state_dict()
        self._connection.execute("DELETE FROM undo")
        return saved


class NotAtOnce(DatabaseStorage):
    """Known to be wrong: each part of a checkpoint is permanent before the next."""

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        yield


STORAGES = {kind.__name__: kind for kind in (DatabaseStorage, WritesAtOnce, KeepsNothing, NotAtOnce)}


def write_steps(cache: ChainCache, generation: int) -> None:
    """What stands between two checkpoints; some rows are visited twice, in a batch and over the batches."""
    generator = torch.Generator().manual_seed(generation)
    for step in range(STEPS):
        rows = torch.randint(ROWS, (BATCH,), generator=generator)
        moved = torch.rand(BATCH, generator=generator) < 0.5
        cache.write(rows, random_states(SPACE, (BATCH,), seed=100 * generation + step), moved)


@functools.cache
def expected(generation: int) -> ChainCache:
    """Chains in memory that were never killed; they are for reading only."""
    cache = ChainCache(SPACE, ROWS)
    for earlier in range(1, generation + 1):
        write_steps(cache, earlier)
    return cache


def reopened(folder: Path) -> tuple[ChainCache, int]:
    """The chains as a resumed run finds them, and how many checkpoints it counts."""
    state = folder / "state.safetensors"
    cache = ChainCache(SPACE, ROWS, folder / "chains")
    if not state.is_file():
        return cache, cache.visits // (STEPS * BATCH)
    tensors, notes = load_tensors(state)
    cache.load_state_dict(tensors)
    return cache, int(str(notes["done"]))


def go_on(folder: Path, with_state_file: bool, generations: int = GENERATIONS) -> ChainCache:
    """Makes all checkpoints that are still to be made."""
    cache, done = reopened(folder)
    for generation in range(done + 1, generations + 1):
        write_steps(cache, generation)
        if with_state_file:
            save_tensors(folder / "state.safetensors", cache.state_dict(), {"done": generation})
        else:
            cache.commit()
    return cache


def contents(cache: ChainCache) -> list[torch.Tensor]:
    """All that can be read of a cache."""
    everything = torch.arange(cache.rows)
    return [*cache.read(everything), cache.age(everything), torch.tensor(cache.visits)]


def same(first: ChainCache, second: ChainCache) -> bool:
    """Whether two caches hold the same."""
    return all(torch.equal(one, other) for one, other in zip(contents(first), contents(second), strict=True))


@dataclass(frozen=True)
class Kill:
    """Which process to kill: at the count-th passing of a place, with a state file beside the chains or without."""

    place: str
    count: int
    storage: str = "DatabaseStorage"
    with_state_file: bool = True

    def __str__(self) -> str:
        return f"{self.storage}-{'state' if self.with_state_file else 'flush'}-{self.place}:{self.count}"


def kill(folder: Path, kills: Sequence[Kill]) -> None:
    """Kills one process for each, in a folder of its name."""
    specification = json.dumps([asdict(each) for each in kills])
    finished = subprocess.run(
        [sys.executable, "-m", "helpers.killed_chains", str(folder)],
        input=specification,
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert finished.returncode == 0, finished.stderr


def main(folder: Path) -> None:
    """Kills those that the standard input names."""
    torch.set_num_threads(1)
    # A kill leaves what the system has taken, on the disk or not, so there is nothing to wait for.
    vars(os)["fsync"] = lambda descriptor: None
    for each in [Kill(**fields) for fields in json.load(sys.stdin)]:
        path = folder / str(each)
        path.mkdir()
        vars(jsa.chains.cache)["DatabaseStorage"] = STORAGES[each.storage]
        code = forked(functools.partial(go_on, path, each.with_state_file), f"{each.place}:{each.count}")
        if code != -signal.SIGKILL:
            sys.exit(f"{each} was not killed")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
