"""Text tables: one row per line, with cells separated by commas, semicolons or tabs.

A valid file of numbers is read by numpy's compiled parser. Only if that fails is the file read cell by cell, for words,
for missing values, and to name the line and column of an error. Neither reads more than memory can hold.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from jsa.data.schema import Words
from jsa.data.tables.cells import Cells, is_missing
from jsa.data.tables.header import column_names, first_line_remarks, may_be_header, standing_again
from jsa.data.tables.values import Values, as_values
from jsa.errors import DataError, shortened
from jsa.io.memory import lack_of_room, room
from jsa.io.regular_files import open_regular

_LONGEST_LINE = 1 << 24  # characters, which is eight million columns
_NUMBER = 12.0  # bytes a cell: a float64, the byte that it becomes, and what an array that grows has to spare
_CELL, _LINE = 20.0, 400.0  # bytes a cell and a line, read cell by cell: two whole numbers, a float64, and objects


class _BeyondMemoryError(DataError):
    """A table that does not fit into memory."""


_DELIMITERS = "\t;,"
"""Ordered by how rarely they are part of a cell."""


@dataclass(frozen=True)
class Layout:
    """The layout of a text file.

    Attributes:
        delimiter: The separator of cells.
        above: The number of lines before the header, or before the first row without a header.
        skipped: The number of lines before the first row.
        header: The cells of the header, if there is one.
        columns: The number of cells of the first row.
        rows: About how many rows there are, by the size of the file and the length of the first row.
    """

    delimiter: str
    above: int
    skipped: int
    header: tuple[str, ...] | None
    columns: int
    rows: float

    def without_header(self) -> Layout:
        """Return the layout with the first line as a row."""
        return replace(self, skipped=self.above, header=None)


@dataclass(frozen=True)
class TextTable:
    """The table of a text file.

    Attributes:
        values: The values; words are classes.
        words: The words of each column, empty for one of numbers.
        names: The names of the columns, if unique.
        remarks: Warnings about the table, one sentence each.
    """

    values: Values
    words: Words
    names: tuple[str, ...] | None
    remarks: tuple[str, ...]


def read_csv(path: Path, known: Words = (), names: tuple[str, ...] | None = None) -> TextTable:
    """Read a table from a text file.

    A first line without numbers is a header, unless one of its cells is a word that is known or repeated in its column.

    Args:
        path: The file.
        known: The words of each column in other tables.
        names: The column names of other tables; a first line with these names is always a header.
    """
    try:
        layout = _layout(path)
        try:
            table = _of_numbers(path, layout)
        except _BeyondMemoryError:
            # Cell by cell it would take more.
            raise
        except (ValueError, DataError):
            is_header = names is not None and column_names(layout.header, str(path), len(names))[0] == names
            if not is_header and standing_again(layout.header, known):
                layout = layout.without_header()
            table = _of_cells(path, layout, is_header=is_header)
        if table.values.columns == 1:
            _refuse_blank_lines(path)
        return table
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8, as a table of text must be: save it in that encoding") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except csv.Error as error:
        raise DataError(f"{path} is not a table of text cells: {error}") from error


def _of_numbers(path: Path, layout: Layout) -> TextTable:
    """Read a table of numbers with numpy."""
    values = as_values(_parse(path, layout), str(path))
    names, nameless = column_names(layout.header, str(path), values.columns)
    return TextTable(values, ((),) * values.columns, names, tuple(nameless))


def _of_cells(path: Path, layout: Layout, *, is_header: bool) -> TextTable:
    """Read a table with numbers, words and missing values cell by cell.

    If the first line is known to be a header, its words are not compared with those of the columns.
    """
    cells = _walk(path, layout)
    table, words = cells.values()
    remarks = []
    again = standing_again(layout.header, words)
    if layout.header is not None and again and not is_header:
        if len(again) < len(layout.header) - sum(map(is_missing, layout.header)):
            remarks.append(
                f"the first line of {path} is taken for a row, not for a header, for '{shortened(again[0])}' occurs "
                "again in its column"
            )
        layout = layout.without_header()
        cells = _walk(path, layout)
        table, words = cells.values()
    values = as_values(table, str(path))
    if layout.header is None:
        remarks += first_line_remarks(values, words, str(path))
    names, nameless = column_names(layout.header, str(path), values.columns)
    return TextTable(values, words, names, (*remarks, *cells.remarks(words), *nameless))


def _parse(path: Path, layout: Layout) -> Float64[np.ndarray, "rows columns"]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy only warns about a file without rows
        return np.loadtxt(
            _within_memory(path, layout, _NUMBER * layout.columns),
            dtype=np.float64,
            delimiter=layout.delimiter,
            skiprows=layout.skipped,
            comments=None,
            quotechar='"',
            ndmin=2,
        )


def _layout(path: Path) -> Layout:
    """Determine the layout of a file from its first lines."""
    written = ((number, line) for number, line in enumerate(_lines(path), start=1) if line.strip())
    lines = list(islice(written, 3))
    if not lines:
        raise DataError(f"{path} is empty: a table has at least one row")
    # Spreadsheets write such a line above a table to declare the separator.
    said = re.fullmatch(r"sep=([,;\t])", lines[0][1].strip("\r\n"))
    above = lines.pop(0)[0] if said else 0
    if not lines:
        raise DataError(f"{path} holds no rows")
    number, first = lines[0]
    delimiter = said[1] if said else _delimiter([line for _, line in lines[:2]], path.suffix.lower())
    cells = _cells(first, delimiter)
    is_header = may_be_header(cells)
    row = lines[min(is_header, len(lines) - 1)][1]
    return Layout(
        delimiter,
        above,
        skipped=number if is_header else above,
        header=tuple(cells) if is_header else None,
        columns=len(_cells(row, delimiter)),
        rows=path.stat().st_size / len(row.encode()),
    )


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file with their ends, and refuse one that is too long for a table."""
    with io.TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="") as stream:
        for number, line in enumerate(iter(partial(stream.readline, _LONGEST_LINE), ""), start=1):
            if len(line) == _LONGEST_LINE:
                raise DataError(
                    f"{path}: line {number} has {_LONGEST_LINE:,} characters or more, so this is not a table of text: "
                    "choose another file"
                )
            yield line


def _within_memory(path: Path, layout: Layout, bytes_a_row: float) -> Iterator[str]:
    """Yield the lines of a table, and refuse one that does not fit into memory.

    A file whose first row is longer than others has more rows than it seemed, so they are counted as they come. The
    first one may pass: whoever reads numbers finds words there, which take more.
    """
    left = room()
    for number, line in enumerate(_lines(path), start=1):
        needed = bytes_a_row * max(number, layout.rows)
        if needed > left and number > layout.skipped + 1:
            raise _BeyondMemoryError(
                f"{path} {lack_of_room(needed, left)}: use fewer rows, save it as a .npy file of bytes, or raise "
                "--memory-limit"
            )
        yield line


def _delimiter(lines: list[str], suffix: str) -> str:
    """Find the delimiter that splits both lines into the most cells, equally many if possible.

    >>> _delimiter(["a, b;c, d;e", "0;1;0"], ".csv")
    ';'
    """
    if suffix == ".tsv" and all("\t" in line for line in lines):
        return "\t"

    def fitness(delimiter: str) -> tuple[bool, bool, int]:
        counts = [len(_cells(line, delimiter)) for line in lines]
        separates = min(counts) > 1
        return separates, separates and len(set(counts)) == 1, max(counts)

    return max(_DELIMITERS, key=fitness)


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter))


def _walk(path: Path, layout: Layout) -> Cells:
    """Read the cells of a file, or refuse the first invalid cell or line."""
    cells = Cells(str(path), has_header=layout.header is not None)
    for line, row in _rows(path, layout):
        cells.add(line, row)
    return cells


def _rows(path: Path, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each line below the header that is not blank."""
    lines = _within_memory(path, layout, _CELL * layout.columns + _LINE)
    reader = csv.reader(lines, delimiter=layout.delimiter)
    for cells in reader:
        if reader.line_num > layout.skipped and cells:
            yield reader.line_num, cells


def _refuse_blank_lines(path: Path) -> None:
    """Refuse a blank line between others, because in a table of one column it is a row without a value."""
    blank = None
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            blank = blank or number
        elif blank is not None and blank > 1:
            raise DataError(
                f"{path}: line {blank} is blank, which in a table of one column is a row without any value: fill it "
                "in, or leave it out"
            )
