"""Download of the files of `mnist-salakhutdinov`."""

from __future__ import annotations

import hashlib
import http.client
import socket
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from jsa.data.published_files import SALAKHUTDINOV, PublishedFile
from jsa.errors import DataError, UsageError

PUBLIC_HOME = "http://www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist"
"""The address at which the static binarization of Salakhutdinov and Murray is published."""

AMAT_FILES = tuple(bits.text for bits in SALAKHUTDINOV.values())

SECONDS_TO_ANSWER = 30.0


def fetch(
    folder: Path,
    base_url: str = PUBLIC_HOME,
    *,
    files: Sequence[PublishedFile] = AMAT_FILES,
) -> list[Path]:
    """Download the three .amat files of `mnist-salakhutdinov` to a folder.

    A file appears under its name only if it is complete and its checksum is correct. Correct files that are already
    there are kept.

    Args:
        folder: The destination; it is created if needed.
        base_url: The address of the files without their names, to download from a mirror.
        files: The files to download.

    Returns:
        The paths of the files.
    """
    if not base_url.startswith(("http://", "https://")):
        raise UsageError(f"'{base_url}' is not an address to fetch from: it must begin with http:// or https://")
    paths = [folder / file.name for file in files]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        missing = [(path, file) for path, file in zip(paths, files, strict=True) if not _is_right(path, file)]
    except OSError as error:
        raise DataError(f"{folder} cannot take the files: {error.strerror or error}") from error
    patience = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SECONDS_TO_ANSWER)
    try:
        for path, file in missing:
            _fetch_one(f"{base_url.rstrip('/')}/{file.name}", path, file)
    finally:
        socket.setdefaulttimeout(patience)
    return paths


def _is_right(path: Path, file: PublishedFile) -> bool:
    if not (path.is_file() and path.stat().st_size == file.size):
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256


def _fetch_one(url: str, path: Path, file: PublishedFile) -> None:
    """Download one file, or leave nothing behind."""
    from torch.hub import download_url_to_file  # only here, because the command line must start without torch

    sys.stderr.write(f"fetching {url}\n")
    try:
        # The downloader has no size limit, so ask the server for the size first.
        with urllib.request.urlopen(url) as answer:
            if answer.length not in (None, file.size):
                raise RuntimeError(f"it has {answer.length} bytes instead of {file.size}")
        download_url_to_file(url, str(path), hash_prefix=file.sha256, progress=sys.stderr.isatty())
    except (OSError, http.client.HTTPException, RuntimeError) as error:
        raise DataError(
            f"{url} could not be fetched ({error}): try again or check the address, or get {file.name} from elsewhere "
            f"and put it into {path.parent}"
        ) from error
