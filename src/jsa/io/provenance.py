"""Provenance of a run: the versions of jsa and of the libraries that it uses."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import jsa


@dataclass(frozen=True)
class Provenance:
    """The versions that made a run.

    Attributes:
        commit: The commit of the source tree that jsa runs from, with ``-changed`` if files differ from it.
    """

    jsa: str
    commit: str | None
    python: str
    torch: str
    numpy: str
    threads: int


def provenance() -> Provenance:
    """Return the versions of this process."""
    # Imported here, so that a record can be read without torch.
    import numpy
    import torch

    return Provenance(
        jsa.__version__,
        commit(),
        platform.python_version(),
        torch.__version__,
        numpy.__version__,
        torch.get_num_threads(),
    )


def commit() -> str | None:
    """Return the commit of the source tree; None for an installed package or without git."""
    package = Path(jsa.__file__).resolve().parent
    head = _git(package, "rev-parse", "HEAD")
    # A package in an environment inside another project's source tree is not part of that project.
    if head is None or not _git(package, "ls-files", "__init__.py"):
        return None
    return f"{head}-changed" if _git(package, "status", "--porcelain", "--untracked-files=no", ".") else head


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
