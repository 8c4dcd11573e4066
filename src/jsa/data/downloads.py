"""The files that others published, their checksums, and how to fetch them."""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from jsa.errors import DataError, UsageError, check_at_least

PICTURE_PIXELS = 28 * 28

AMAT_LINE = 2 * PICTURE_PIXELS
"""The bytes of a row in the .amat text: each pixel is `0` or `1`, followed by a space or the line's end."""

PUBLIC_HOME = "http://www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist"
"""Where the static binarization of Salakhutdinov and Murray is published."""


@dataclass(frozen=True)
class PublishedFile:
    """A file as its publisher has it.

    Attributes:
        name: Its name at its home.
        size: Its length in bytes, unpacked.
        sha256: The checksum of those bytes, in hexadecimal.
    """

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class PublishedPictures:
    """The four IDX files of MNIST, and of the datasets made in its likeness."""

    train_images: PublishedFile
    train_labels: PublishedFile
    test_images: PublishedFile
    test_labels: PublishedFile

    @property
    def files(self) -> tuple[PublishedFile, ...]:
        """All four, in the order in which the built-in archive keeps them: pictures, then labels."""
        return self.train_images, self.test_images, self.train_labels, self.test_labels


@dataclass(frozen=True)
class PublishedAmat:
    """The three text files of the static binarization."""

    train: PublishedFile
    valid: PublishedFile
    test: PublishedFile

    @property
    def files(self) -> tuple[PublishedFile, ...]:
        """All three."""
        return self.train, self.valid, self.test


def _images(name: str, rows: int, sha256: str) -> PublishedFile:
    return PublishedFile(f"{name}-images-idx3-ubyte", 16 + rows * PICTURE_PIXELS, sha256)


def _labels(name: str, rows: int, sha256: str) -> PublishedFile:
    return PublishedFile(f"{name}-labels-idx1-ubyte", 8 + rows, sha256)


def _amat(split: str, rows: int, sha256: str) -> PublishedFile:
    return PublishedFile(f"binarized_mnist_{split}.amat", rows * AMAT_LINE, sha256)


MNIST = PublishedPictures(
    _images("train", 60_000, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    _labels("train", 60_000, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    _images("t10k", 10_000, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    _labels("t10k", 10_000, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
)

FASHION_MNIST = PublishedPictures(
    _images("train", 60_000, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
    _labels("train", 60_000, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
    _images("t10k", 10_000, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
    _labels("t10k", 10_000, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
)

SALAKHUTDINOV = PublishedAmat(
    _amat("train", 50_000, "ad693b29f94c14277b095f5238ddefbbdaaae0939789dd2f4f0205278cee3e4d"),
    _amat("valid", 10_000, "1de3d397c40fe8eeb33dafd4099a1f665ec01e96d9be234aaeeac8a34930e2e2"),
    _amat("test", 10_000, "e6687bfea3f820c174f33b7865140b2a2dd2930ef786f35d45795fc193b5ab2c"),
)


_BYTES_HASHED_AT_ONCE = 1 << 20


def sha256_of_file(path: Path) -> str:
    """The checksum of a file, which may be larger than the memory."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_BYTES_HASHED_AT_ONCE):
            digest.update(chunk)
    return digest.hexdigest()


def read_copy(path: Path, file: PublishedFile, remedy: str) -> bytes:
    """The content of a copy of a published file; one of another size is refused before anything is read.

    Args:
        path: The copy.
        file: What was published.
        remedy: What the user can do about a wrong copy, to end the sentence of the error.
    """
    try:
        with path.open("rb") as stream:
            _check_size(file, str(path), os.fstat(stream.fileno()).st_size, remedy)
            return stream.read(file.size)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def verify(copies: Iterable[tuple[PublishedFile, str, bytes | memoryview]], remedy: str) -> None:
    """Refuse a content that is not what was published.

    The checksums are computed in threads, for which hashlib releases the interpreter's lock.

    Args:
        copies: Each file as published, what to call the copy in an error, and the copy's content.
        remedy: What the user can do about a wrong copy, to end the sentence of the error.
    """
    listed = list(copies)
    for file, source, content in listed:
        _check_size(file, source, len(content), remedy)
    with ThreadPoolExecutor() as pool:
        digests = pool.map(lambda copy: hashlib.sha256(copy[2]).hexdigest(), listed)
        for (file, source, _), digest in zip(listed, digests, strict=True):
            if digest != file.sha256:
                raise DataError(f"{source} is not the published {file.name}, for its sha256 is {digest}: {remedy}")


def _check_size(file: PublishedFile, source: str, size: int, remedy: str) -> None:
    if size != file.size:
        raise DataError(
            f"{source} is not the published {file.name}, for it has {size} bytes instead of {file.size}: {remedy}"
        )


_BYTES_FETCHED_AT_ONCE = 1 << 16


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
    check_at_least(1, attempts=attempts)
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
            while chunk := answer.read(_BYTES_FETCHED_AT_ONCE):
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
