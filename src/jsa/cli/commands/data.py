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
    """Download the published static binarization of MNIST, for --data mnist-salakhutdinov."""

    action: tyro.conf.Positional[Literal["fetch"]]
    """What to do."""
    folder: Path | None = None
    """The destination folder. If not given: JSA_DATA_DIR, or else ~/.local/share/jsa."""
    home: str | None = None
    """The address of a mirror to download from."""


def run(arguments: Sequence[str]) -> None:
    """Run ``jsa data``."""
    parsed = parse(DataArguments, "data", arguments)

    from jsa.data import fetch
    from jsa.data.catalog import default_folder
    from jsa.data.downloads import PUBLIC_HOME

    folder = parsed.folder or default_folder()
    fetch(folder, parsed.home or PUBLIC_HOME)
    hint = "" if folder == default_folder() else f" --data-dir {folder}"
    print(f"the files are in {folder}: train with --data mnist-salakhutdinov{hint}")
