"""How much memory there is, and what does not fit into it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.own_tables import write
from jsa.io.memory import SHARE, free_memory, lack_of_room, room, set_memory_limit, taken_memory

MACHINE = "MemTotal:       4000 kB\nMemFree:         100 kB\nMemAvailable:   3000 kB\n"
STATISTICS = "anon 5\ninactive_file 1000\n"


@pytest.fixture(autouse=True)
def no_limit() -> Iterator[None]:
    yield
    set_memory_limit(None)


def system(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        write(root / name, text)
    return root


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, 3000 * 1024),
        ({"memory.max": "max\n", "memory.current": "7\n", "memory.stat": STATISTICS}, 3000 * 1024),
        # Unused pages of files are given back, so they count as free.
        ({"memory.max": "500000\n", "memory.current": "400000\n", "memory.stat": STATISTICS}, 101_000),
        (
            {
                "memory/memory.limit_in_bytes": "500000\n",
                "memory/memory.usage_in_bytes": "400000\n",
                "memory/memory.stat": f"{STATISTICS}total_inactive_file 2000\n",
            },
            102_000,
        ),
    ],
    ids=["machine", "unlimited", "version 2", "version 1"],
)
def test_the_free_memory_is_that_of_the_machine_or_of_the_container(
    tmp_path: Path, files: dict[str, str], free: int
) -> None:
    root = system(
        tmp_path, {"proc/meminfo": MACHINE, **{f"sys/fs/cgroup/{name}": text for name, text in files.items()}}
    )
    assert free_memory(root) == free


def test_without_a_limit_a_share_of_the_free_memory_may_be_taken() -> None:
    assert room() == pytest.approx(SHARE * free_memory(), rel=0.1)


def test_a_limit_counts_what_is_taken_already() -> None:
    set_memory_limit(taken_memory() / 1e9 + 1)
    assert room() == pytest.approx(1e9, rel=0.1)
    assert lack_of_room(0.5e9) is None
    assert lack_of_room(2e9) == "takes about 2.0 GB of memory, and 1.0 GB may be taken"
    set_memory_limit(0.001)
    assert room() == 0
