"""Where the files are that the package does not carry."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

ENVIRONMENT_VARIABLE = "JSA_DATA_DIR"


def default_folder() -> Path:
    """Where fetched files go when the user names no folder: the variable's folder, else the user's data folder."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(named).expanduser() if named else user_folder()


def user_folder() -> Path:
    """The folder of this program among the user's data."""
    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "jsa"


def data_folders(data_dir: Path | None) -> list[Path]:
    """The folders to look into, the one that the user names first."""
    return [default_folder()] if data_dir is None else [data_dir.expanduser(), default_folder()]


def searched(folders: Sequence[Path]) -> str:
    """The folders of a search, to be named in an error.

    >>> searched([Path("here"), Path("there"), Path("here")])
    'looked into here, there'
    """
    return "looked into " + ", ".join(map(str, dict.fromkeys(folders)))
