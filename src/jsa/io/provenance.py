"""With what a run was made: the versions of the program and of what it stands on."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import jsa


@dataclass(frozen=True)
class Provenance:
    """The versions behind a run.

    Attributes:
        commit: The commit of the program where it runs from a work tree, with ``-changed`` where files differ from it.
    """

    jsa: str
    commit: str | None
    python: str
    torch: str
    numpy: str
    threads: int


def provenance() -> Provenance:
    """The versions of this process."""
    # Imported here, so that what was written down can be read without torch.
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
    """The commit of the work tree that the package is in; none for an installed package or without git."""
    package = Path(jsa.__file__).resolve().parent
    head = _git(package, "rev-parse", "HEAD")
    # A package in some environment inside another project's work tree is not part of that project.
    if head is None or not _git(package, "ls-files", "__init__.py"):
        return None
    return f"{head}-changed" if _git(package, "status", "--porcelain", "--untracked-files=no", ".") else head


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
