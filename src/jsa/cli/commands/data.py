"""``jsa data``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from jsa.cli.arguments import parse


@dataclass(frozen=True)
class DataArguments:
    """Fetch the published static binarization of MNIST, for --data mnist-salakhutdinov."""

    action: tyro.conf.Positional[Literal["fetch"]]
    """What to do."""
    folder: Path | None = None
    """Where to put the three files; the folder of JSA_DATA_DIR, else the user's data folder, where not given."""
    home: str | None = None
    """Another address to fetch from than the public one."""


def run(arguments: Sequence[str]) -> None:
    """Fetches the files."""
    parsed = parse(DataArguments, "data", arguments)

    from jsa.data import fetch
    from jsa.data.catalog import default_folder
    from jsa.data.downloads import PUBLIC_HOME

    folder = parsed.folder or default_folder()
    fetch(folder, parsed.home or PUBLIC_HOME)
    hint = "" if folder == default_folder() else f" --data-dir {folder}"
    print(f"the files are in {folder}: train with --data mnist-salakhutdinov{hint}")
