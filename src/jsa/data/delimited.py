"""Tables as text: one row a line, cells separated by commas, semicolons or tabs.

A good file of numbers is read by numpy's compiled parser. Only when that fails is the file walked through cell by cell:
for words, for values that are missing, and to tell the user the line and the column that are wrong.
"""

from __future__ import annotations

import csv
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from jsa.data.cells import Cells, is_missing, is_number
from jsa.data.values import Values, as_values
from jsa.data.words import Words
from jsa.errors import DataError, shortened

_DELIMITERS = ",;\t"


@dataclass(frozen=True)
class Layout:
    """How a text file is made.

    Attributes:
        delimiter: What stands between cells.
        above: The lines before the header, or before the first row where there is none.
        skipped: The lines before the first row.
        header: The cells of the header, where there is one.
    """

    delimiter: str
    above: int
    skipped: int
    header: tuple[str, ...] | None

    def without_header(self) -> Layout:
        """The first line as a row."""
        return replace(self, skipped=self.above, header=None)


@dataclass(frozen=True)
class Header:
    """What the columns of a text file are called.

    Attributes:
        names: A name for each, where they can be told apart by it.
        remark: Why there are no names although there is a header.
    """

    names: tuple[str, ...] | None = None
    remark: str | None = None


@dataclass(frozen=True)
class TextTable:
    """The table of a text file.

    Attributes:
        values: The values; words are classes.
        words: The words of each column.
        header: What the columns are called.
    """

    values: Values
    words: Words
    header: Header


def read_csv(path: Path, known: Words = ()) -> TextTable:
    """The table of a text file.

    A first line without any number is a header, unless every cell of it is a word that its column holds again, or that
    is known.

    Args:
        path: The file.
        known: The words of each column in other tables.
    """
    try:
        layout = _layout(path)
        if _is_row(layout.header, known):
            layout = layout.without_header()
        try:
            values = as_values(_parse(path, layout), str(path))
            words: Words = ((),) * values.columns
        except (ValueError, DataError):
            table, words = _walk(path, layout).values()
            if _is_row(layout.header, words):
                layout = layout.without_header()
                table, words = _walk(path, layout).values()
            values = as_values(table, str(path))
        if values.columns == 1:
            _refuse_blank_lines(path)
        return TextTable(values, words, _header(layout, path, values.columns))
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8, as a table of text must be: save it in that encoding") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except csv.Error as error:
        raise DataError(f"{path} is not a table of text cells: {error}") from error


def _is_row(header: tuple[str, ...] | None, words: Words) -> bool:
    """Whether what was taken for a header is a row of words, for all of them are words of their columns.

    >>> words = ("no", "yes"), ("no", "yes")
    >>> _is_row(("yes", "no"), words), _is_row(("smokes", "no"), words)
    (True, False)
    """
    if header is None or len(header) != len(words):
        return False
    cells = [cell.strip() for cell in header]
    return all(cell in known or is_missing(cell) for cell, known in zip(cells, words, strict=True))


def _header(layout: Layout, path: Path, columns: int) -> Header:
    """What the so many columns are called."""
    if layout.header is None:
        return Header()
    names = tuple(shortened("".join(filter(str.isprintable, cell)).strip()) for cell in layout.header)
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
    is_header = not any(map(is_number, cells)) and not all(map(is_missing, cells))
    return Layout(delimiter, above, number if is_header else above, tuple(cells) if is_header else None)


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


def _walk(path: Path, layout: Layout) -> Cells:
    """The cells of a file, or the first cell or line that is wrong."""
    cells = Cells(str(path), has_header=layout.header is not None)
    for line, row in _rows(path, layout):
        cells.add(line, row)
    return cells


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
