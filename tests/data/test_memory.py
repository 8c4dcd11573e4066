"""Tables that do not fit into memory are refused before they are in it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from helpers.own_tables import write
from jsa.data.arrays import read_npy, read_npz
from jsa.data.tables.delimited import read_csv
from jsa.errors import DataError
from jsa.io.memory import set_memory_limit, taken_memory

BEYOND = r"takes about \d+\.\d GB of memory, and \d+\.\d GB may be taken: use fewer rows, .*, or raise --memory-limit"
ROWS, COLUMNS = 100_000, 20


@pytest.fixture
def ten_megabytes() -> Iterator[None]:
    set_memory_limit((taken_memory() + 10e6) / 1e9)
    yield
    set_memory_limit(None)


def text(cell: str, rows: int = ROWS) -> bytes:
    return (",".join([cell] * COLUMNS) + "\n").encode() * rows


def packed(save: Callable[..., None], kind: str = "u1", rows: int = ROWS) -> bytes:
    stream = io.BytesIO()
    save(stream, np.random.default_rng(0).integers(0, 2, (rows, COLUMNS)).astype(kind))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("read", "content"),
    [
        (read_csv, text("1")),
        (read_csv, text("yes")),
        # By its first row, this one is taken for a hundredth of what it is.
        (read_csv, b",".join([b"0" * 400] * COLUMNS) + b"\n" + text("1")),
        (read_npy, packed(np.save, "f8")),
        (read_npy, packed(np.save, "i8")),
        (read_npz, packed(np.savez, "i8")),
        (read_npz, packed(np.savez_compressed, "i8")),
    ],
    ids=["numbers", "words", "first row", "floats", "integers", "archive", "compressed"],
)
@pytest.mark.usefixtures("ten_megabytes")
def test_a_table_beyond_memory_is_refused(tmp_path: Path, read: Callable[[Path], object], content: bytes) -> None:
    with pytest.raises(DataError, match=BEYOND):
        read(write(tmp_path / "it", content))


def test_a_table_that_fits_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What other tests of this process keep or free meanwhile does not count.
    monkeypatch.setattr("jsa.io.memory.room", lambda: 10e6)
    monkeypatch.setattr("jsa.data.tables.delimited.room", lambda: 10e6)
    for read, content in ((read_csv, text("1", 20_000)), (read_npy, packed(np.save)), (read_npz, packed(np.savez))):
        read(write(tmp_path / "it", content))


def test_a_line_without_end_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "it.csv"
    write(path, "0,1\n")
    os.truncate(path, 100_000_000)
    with pytest.raises(DataError, match=r"line 2 has 16,777,216 characters or more, so this is not a table of text"):
        read_csv(path)


READ = """
import re, sys
from pathlib import Path
from jsa.data.tables.table import TableOptions, table_splits
from jsa.errors import DataError
from jsa.io import memory
# Unlike ru_maxrss it does not begin with the memory of the process that started this one.
def most():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
memory.set_memory_limit(1e-9)
try:
    table_splits(Path(sys.argv[1]), TableOptions())
except DataError as error:
    said = float(re.search(r"about ([\\d.]+) GB", str(error))[1])
memory.set_memory_limit(None)
before = memory.taken_memory()
table_splits(Path(sys.argv[1]), TableOptions())
print(said * 1e9 / (most() - before))
"""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("it.csv", text("1", 1_000_000)),
        ("it.npy", packed(np.save, "f8", 1_000_000)),
        ("it.csv", text("yes", 500_000)),
    ],
    ids=["numbers", "floats", "words"],
)
def test_what_a_table_takes_is_estimated_within_a_factor_of_two(tmp_path: Path, name: str, content: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-c", READ, str(write(tmp_path / name, content))], capture_output=True, text=True, check=True
    )
    assert 0.5 < float(done.stdout) < 2
