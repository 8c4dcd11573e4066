"""Tables as text: one row a line, cells separated by commas, semicolons or tabs.

A good file is read by numpy's compiled parser. Only when that fails is the file walked through cell by cell: for values
that are missing, and to tell the user the line and the column that are wrong.
"""

from __future__ import annotations

import csv
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from jsa.data.values import RULE, Values, as_values
from jsa.errors import DataError, shortened

_DELIMITERS = ",;\t"
_MISSING = {"", "-", ".", "?", "na", "n/a", "none", "null", "nan", "-nan"}
"""How programs write a missing value, in small letters."""

_NO_HEADER = "a first line is taken for a header where none of its cells is a number"


@dataclass(frozen=True)
class Layout:
    """How a text file is made.

    Attributes:
        delimiter: What stands between cells.
        skipped: The lines before the first row.
        header: The cells of the header, where there is one.
    """

    delimiter: str
    skipped: int
    header: tuple[str, ...] | None


@dataclass(frozen=True)
class Header:
    """What the columns of a text file are called.

    Attributes:
        names: A name for each, where they can be told apart by it.
        remark: Why there are no names although there is a header.
    """

    names: tuple[str, ...] | None = None
    remark: str | None = None


def read_csv(path: Path) -> Values:
    """The table of a text file.

    A first line without any number is a header, and skipped.
    """
    try:
        layout = _layout(path)
        try:
            values = as_values(_parse(path, layout), str(path))
        except (ValueError, DataError):
            values = as_values(_walk(path, layout), str(path))
        if values.columns == 1:
            _refuse_blank_lines(path)
        return values
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8, as a table of text must be: save it in that encoding") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except csv.Error as error:
        raise DataError(f"{path} is not a table of text cells: {error}") from error


def read_header(path: Path, columns: int) -> Header:
    """What the so many columns of a text file that was read are called."""
    header = _layout(path).header
    if header is None:
        return Header()
    names = tuple(shortened("".join(filter(str.isprintable, cell)).strip()) for cell in header)
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if len(names) != columns:
        why = f"has {len(names)} names for {columns} columns"
    elif not all(names):
        why = f"has no name for column {names.index('') + 1}"
    elif twice is not None:
        why = f"has the name '{twice}' twice"
    else:
        return Header(names)
    return Header(remark=f"the header of {path} {why}, so that columns go by their numbers")


def _parse(path: Path, layout: Layout) -> Float64[np.ndarray, "rows columns"]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # to numpy a file without rows is only worth a warning
        return np.loadtxt(
            path,
            dtype=np.float64,
            delimiter=layout.delimiter,
            skiprows=layout.skipped,
            comments=None,
            quotechar='"',
            encoding="utf-8-sig",
            ndmin=2,
        )


def _layout(path: Path) -> Layout:
    """How a file is made, by its first lines."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        written = ((number, line) for number, line in enumerate(stream, start=1) if line.strip())
        lines = list(islice(written, 3))
    if not lines:
        raise DataError(f"{path} is empty: a table has at least one row")
    # Spreadsheets write such a line above a table to say what separates its cells.
    said = re.fullmatch(r"sep=([,;\t])", lines[0][1].strip("\r\n"))
    above = lines.pop(0)[0] if said else 0
    if not lines:
        raise DataError(f"{path} holds no rows")
    number, first = lines[0]
    delimiter = said[1] if said else _delimiter([line for _, line in lines[:2]])
    cells = _cells(first, delimiter)
    is_header = not any(map(_is_number, cells)) and not all(map(_is_missing, cells))
    return Layout(delimiter, number if is_header else above, tuple(cells) if is_header else None)


def _delimiter(lines: list[str]) -> str:
    """What separates the cells of both lines, alike if possible, into as many as possible.

    >>> _delimiter(["a, b;c, d;e", "0;1;0"])
    ';'
    """

    def fitness(delimiter: str) -> tuple[bool, bool, int]:
        counts = [len(_cells(line, delimiter)) for line in lines]
        separates = min(counts) > 1
        return separates, separates and len(set(counts)) == 1, max(counts)

    return max(_DELIMITERS, key=fitness)


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter))


def _walk(path: Path, layout: Layout) -> Float64[np.ndarray, "rows columns"]:
    """The numbers of a file cell by cell, NaN where one is missing, or the first cell or line that is wrong."""
    rows: list[Float64[np.ndarray, " columns"]] = []
    # The same few cells come again and again.
    numbers: dict[str, float] = {}
    for line, cells in _rows(path, layout):
        for column, cell in enumerate(cells, start=1):
            if cell in numbers:
                continue
            fault = _fault(cell, len(rows), may_be_header=not rows and layout.header is None)
            if fault is not None:
                raise DataError(f"{path}: line {line}, column {column} {fault}")
            numbers[cell] = np.nan if _is_missing(cell) else float(cell)
        if rows and len(cells) != len(rows[0]):
            raise DataError(f"{path}: line {line} has {len(cells)} cells, but the first row has {len(rows[0])}")
        rows.append(np.array([numbers[cell] for cell in cells]))
    if not rows:
        raise DataError(f"{path} holds no rows below its header")
    return np.stack(rows)


def _fault(cell: str, row: int, *, may_be_header: bool) -> str | None:
    """What is wrong with a cell, and how to mend it."""
    if _is_missing(cell):
        return None
    header = f"; {_NO_HEADER}" if may_be_header else ""
    if not _is_number(cell):
        return f"holds '{shortened(cell)}', which is no number: write values as 0, 1, 2 and so on{header}"
    value = float(cell)
    if 0 <= value <= 255 and value.is_integer():
        return None
    numbered = "; leave out a column of row numbers" if row > 1 and value in (row, row + 1) else ""
    return f"holds {shortened(cell.strip())}, but {RULE}{numbered}{header}"


def _rows(path: Path, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of each line below the header that is not blank."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, delimiter=layout.delimiter)
        for cells in reader:
            if reader.line_num > layout.skipped and cells:
                yield reader.line_num, cells


def _refuse_blank_lines(path: Path) -> None:
    """Refuses a blank line between others, which in a table of one column is a row without any value, not nothing."""
    blank = None
    with path.open(encoding="utf-8-sig") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                blank = blank or number
            elif blank is not None and blank > 1:
                raise DataError(
                    f"{path}: line {blank} is blank, which in a table of one column is a row without any value: fill "
                    "it in, or leave it out"
                )


def _is_missing(cell: str) -> bool:
    return cell.strip().lower().removeprefix("+") in _MISSING


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    # Python takes more for a number than numpy does.
    return "_" not in cell and cell.isascii()
