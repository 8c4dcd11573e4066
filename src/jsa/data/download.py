"""Fetching the static binarisation of MNIST from its public home."""

from __future__ import annotations

import http.client
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path

from tqdm import tqdm

from jsa.data.published import PUBLIC_HOME, SALAKHUTDINOV, PublishedFile
from jsa.data.verify import sha256_of_file
from jsa.errors import DataError, UsageError

_CHUNK = 1 << 16


class _InterruptedError(Exception):
    """A transfer that may succeed when it is tried again."""


class _RefusedError(Exception):
    """A transfer that will not succeed by being tried again."""


def fetch(
    folder: Path,
    base_url: str = PUBLIC_HOME,
    *,
    files: Sequence[PublishedFile] = SALAKHUTDINOV.files,
    attempts: int = 4,
    timeout: float = 30.0,
    first_pause: float = 1.0,
) -> list[Path]:
    """Bring the three .amat files of `mnist-salakhutdinov` into a folder.

    A file appears under its name only when it is whole and its checksum is right. Files that are already
    there and right are left alone.

    Args:
        folder: Where the files go; it is made if need be.
        base_url: The folder of the files on the web, for those who keep a mirror.
        files: What to fetch.
        attempts: How often a transfer that breaks off is tried.
        timeout: The seconds to wait for an answer, or for more of it.
        first_pause: The seconds before the second attempt; each later pause is twice as long.

    Returns:
        The paths of the files.
    """
    if not base_url.startswith(("http://", "https://")):
        raise UsageError(f"'{base_url}' is not an address to fetch from: it must begin with http:// or https://")
    if attempts < 1:
        raise UsageError(f"attempts is {attempts}: at least one is needed")
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            path = folder / file.name
            if _is_right(path, file):
                _say(f"{file.name} is already there")
            else:
                url = f"{base_url.rstrip('/')}/{file.name}"
                _fetch_one(url, path, file, attempts, timeout, first_pause)
            paths.append(path)
    except OSError as error:
        raise DataError(f"{folder} cannot take the files: {error.strerror or error}") from error
    return paths


def _is_right(path: Path, file: PublishedFile) -> bool:
    return path.is_file() and path.stat().st_size == file.size and sha256_of_file(path) == file.sha256


def _fetch_one(url: str, path: Path, file: PublishedFile, attempts: int, timeout: float, first_pause: float) -> None:
    """Bring one file, or leave nothing behind."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        for attempt in range(1, attempts + 1):
            try:
                _transfer(url, unfinished, file, timeout)
                break
            except _InterruptedError as error:
                if attempt == attempts:
                    raise DataError(
                        f"{url} could not be fetched in {attempts} attempts ({error}): try again later, "
                        f"or get {file.name} from elsewhere and put it into {path.parent}"
                    ) from error
                pause = first_pause * 2 ** (attempt - 1)
                _say(f"{file.name}: {error}; attempt {attempt + 1} of {attempts} in {pause:g} s")
                time.sleep(pause)
        digest = sha256_of_file(unfinished)
        if digest != file.sha256:
            raise _RefusedError(f"what it sends is another file, with the sha256 {digest}")
        unfinished.replace(path)
    except _RefusedError as error:
        raise DataError(
            f"{url} cannot be used ({error}): check the address, or get {file.name} from elsewhere "
            f"and put it into {path.parent}"
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


def _transfer(url: str, unfinished: Path, file: PublishedFile, timeout: float) -> None:
    """One attempt to write the whole file under its unfinished name."""
    _say(f"fetching {url}")
    received = 0
    shown = sys.stderr.isatty()
    with (
        closing(_chunks(url, timeout)) as chunks,
        unfinished.open("wb") as stream,
        tqdm(total=file.size, desc=file.name, unit="B", unit_scale=True, disable=not shown) as bar,
    ):
        for chunk in chunks:
            received += len(chunk)
            if received > file.size:
                raise _RefusedError(f"it sends more than the {file.size} bytes of {file.name}")
            stream.write(chunk)
            bar.update(len(chunk))
    if received < file.size:
        raise _InterruptedError(f"only {received} of {file.size} bytes came")


def _chunks(url: str, timeout: float) -> Generator[bytes, None, None]:
    """What the server sends, with its failures sorted into those that may pass and those that will not."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            while chunk := answer.read(_CHUNK):
                yield chunk
    except urllib.error.HTTPError as error:
        with error:
            kind = _InterruptedError if error.code >= 500 or error.code in (408, 429) else _RefusedError
            raise kind(f"the server answers {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise _InterruptedError(str(error.reason)) from error
    except (OSError, http.client.HTTPException) as error:
        raise _InterruptedError(str(error) or type(error).__name__) from error


def _say(line: str) -> None:
    """A line for the user, beside whatever the program prints."""
    tqdm.write(line, file=sys.stderr)
