"""The named datasets, with a line about each.

Nothing heavy is imported here, because `jsa list` and `jsa --help` must not wait for torch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from jsa.errors import unknown_name
from jsa.io.home_folder import expanded

DESCRIPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "mnist-threshold": "MNIST, on where brighter than half; 55,000/5,000/10,000; built in",
        "mnist-static": "MNIST, one fixed Bernoulli draw; 50,000/10,000/10,000; built in",
        "mnist-dynamic": "MNIST, training rows drawn anew every epoch; 50,000/10,000/10,000; built in",
        "mnist-salakhutdinov": "MNIST by Salakhutdinov and Murray (2008); 50,000/10,000/10,000; needs files",
        "fashion-mnist": "Fashion-MNIST, one fixed Bernoulli draw; 50,000/10,000/10,000; needs files",
    }
)


def names() -> tuple[str, ...]:
    """Return the names that `load` accepts, in the order of presentation.

    >>> names()[0]
    'mnist-threshold'
    """
    return tuple(DESCRIPTIONS)


def describe(name: str) -> str:
    """Return one line about a dataset.

    >>> describe("mnist-static")
    'MNIST, one fixed Bernoulli draw; 50,000/10,000/10,000; built in'
    """
    if name not in DESCRIPTIONS:
        raise unknown_name("dataset", name, DESCRIPTIONS)
    return DESCRIPTIONS[name]


ENVIRONMENT_VARIABLE = "JSA_DATA_DIR"


def default_folder() -> Path:
    """Return the default folder of downloads: that of the environment variable, else the user's data folder."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    return expanded(named) if named else user_folder()


def user_folder() -> Path:
    """Return the folder of this program in the user's data folder."""
    home = os.environ.get("XDG_DATA_HOME")
    return expanded(home or "~/.local/share") / "jsa"


def data_folders(data_dir: Path | None) -> list[Path]:
    """Return the folders to search, starting with the one from the user."""
    return [default_folder()] if data_dir is None else [expanded(data_dir), default_folder()]


def searched(folders: Sequence[Path]) -> str:
    """Name the searched folders for an error.

    >>> searched([Path("here"), Path("there"), Path("here")])
    'searched here, there'
    """
    return "searched " + ", ".join(map(str, dict.fromkeys(folders)))
