"""The memory that this process may take, to refuse beforehand what cannot fit."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SHARE = 0.9
"""The share of the free memory that may be taken if no limit is set; other programs need some too."""

_PAGE = os.sysconf("SC_PAGE_SIZE")
_GIGABYTE = 1e9
_limit: float | None = None


def set_memory_limit(gigabytes: float | None) -> None:
    """Limit the memory that this process may take in all; None for a share of what is free."""
    global _limit
    _limit = None if gigabytes is None else gigabytes * _GIGABYTE


@contextmanager
def limited_memory(gigabytes: float | None) -> Iterator[None]:
    """Limit the memory that this process may take inside this block, as ``set_memory_limit`` does."""
    global _limit
    before = _limit
    set_memory_limit(gigabytes)
    try:
        yield
    finally:
        _limit = before


def room() -> float:
    """Return how many bytes this process may still take."""
    return SHARE * free_memory() if _limit is None else max(0.0, _limit - taken_memory())


def lack_of_room(needed: float, left: float | None = None) -> str | None:
    """Return the middle of a sentence about something that does not fit into memory; None if it does.

    Args:
        needed: The bytes that it will take beside what the process has taken already.
        left: The bytes that may be taken; ``room()`` where not given.

    >>> lack_of_room(1e18)
    'takes about 1,000,000,000.0 GB of memory, and ... GB may be taken'
    """
    left = room() if left is None else left
    if needed <= left:
        return None
    return f"takes about {needed / _GIGABYTE:,.1f} GB of memory, and {left / _GIGABYTE:,.1f} GB may be taken"


def taken_memory() -> int:
    """Return the bytes of memory that this process has now."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    # Elsewhere only the highest number so far is known, in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def free_memory(root: Path = Path("/")) -> float:
    """Return the bytes that programs can take without swapping: those of the machine, or of the container if fewer.

    Args:
        root: Where /proc and /sys are.
    """
    return min([_free_on_machine(root), *_free_in_groups(root)])


def _free_on_machine(root: Path) -> float:
    with suppress(OSError):
        lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    return os.sysconf("SC_PHYS_PAGES") * _PAGE


def _free_in_groups(root: Path) -> Iterator[float]:
    """Yield what the control group of a container leaves, in either version of Linux's interface."""
    groups = root / "sys/fs/cgroup"
    for most, taken in (
        (groups / "memory.max", groups / "memory.current"),
        (groups / "memory/memory.limit_in_bytes", groups / "memory/memory.usage_in_bytes"),
    ):
        # There is no such file outside a container, and "max" stands for no limit.
        with suppress(OSError, ValueError):
            statistics = dict(line.split() for line in (most.parent / "memory.stat").read_text("ascii").splitlines())
            # Pages of files that nobody uses are given back when memory is short.
            unused = int(statistics.get("total_inactive_file", statistics["inactive_file"]))
            yield int(most.read_text("ascii")) - int(taken.read_text("ascii")) + unused
