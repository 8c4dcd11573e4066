"""Paths that begin with the home folder of a user."""

from __future__ import annotations

from pathlib import Path

from jsa.errors import UsageError, shortened


def expanded(path: Path | str) -> Path:
    """Return a path with the home folder that ``~`` or ``~user`` stands for, or refuse a user that there is not.

    >>> expanded("~nobody-of-this-name/table.csv")
    Traceback (most recent call last):
    jsa.errors.UsageError: ~nobody-of-this-name/table.csv begins with ... write ./~ for a name that begins so
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(
            f"{shortened(path)} begins with the home folder of a user that this machine does not know: check the path, "
            "or write ./~ for a name that begins so"
        ) from None
