"""Tables as text: one row a line, cells separated by commas, semicolons or tabs.

A good file is read by numpy's compiled parser. Only when that fails is the file walked through cell by cell,
to tell the user the line and the column that are wrong.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float64, UInt8

from jsa.data.values import RULE, as_bytes
from jsa.errors import DataError, shortened

_DELIMITERS = ",;\t"


def read_csv(path: Path) -> UInt8[np.ndarray, "rows columns"]:
    """The table of a text file.

    A first line without any number is a header, and skipped.
    """
    try:
        delimiter, header_line, _ = _layout(path)
        try:
            return as_bytes(_parse(path, delimiter, header_line), str(path))
        except (ValueError, DataError) as error:
            raise DataError(_first_fault(path, delimiter, header_line) or f"{path}: {shortened(error)}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8, as a .csv file must be") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except csv.Error as error:
        raise DataError(f"{path} is not a table of text cells: {error}") from error


def column_names(path: Path, columns: int) -> tuple[str, ...] | None:
    """The names in the header of a text file that was read; none where they do not tell its columns apart."""
    _, header_line, cells = _layout(path)
    names = tuple(shortened("".join(filter(str.isprintable, cell)).strip()) for cell in cells)
    return names if header_line and all(names) and len(set(names)) == len(names) == columns else None


def _parse(path: Path, delimiter: str, header_line: int) -> Float64[np.ndarray, "rows columns"]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # to numpy a file without rows is only worth a warning
        return np.loadtxt(
            path,
            dtype=np.float64,
            delimiter=delimiter,
            skiprows=header_line,
            comments=None,
            quotechar='"',
            encoding="utf-8-sig",
            ndmin=2,
        )


def _layout(path: Path) -> tuple[str, int, list[str]]:
    """The delimiter, the number of lines up to and including the header, 0 without one, and the cells of the first."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                delimiter = max(_DELIMITERS, key=line.count)
                cells = next(csv.reader([line], delimiter=delimiter))
                return delimiter, 0 if any(map(_is_number, cells)) else number, cells
    raise DataError(f"{path} is empty: a table has at least one row")


def _first_fault(path: Path, delimiter: str, header_line: int) -> str | None:
    """A sentence about the first cell or line that cannot be part of a table."""
    columns = None
    for line, cells in _lines(path, delimiter, header_line):
        columns = columns or len(cells)
        for column, cell in enumerate(cells, start=1):
            if not _is_number(cell):
                return f"{path}: line {line}, column {column} holds '{shortened(cell)}', which is no number"
            if not (0 <= float(cell) <= 255 and float(cell).is_integer()):
                return f"{path}: line {line}, column {column} holds {shortened(cell.strip())}, but {RULE}"
        if len(cells) != columns:
            return f"{path}: line {line} has {len(cells)} cells, but the first row has {columns}"
    return f"{path} holds no rows below its header" if columns is None else None


def _lines(path: Path, delimiter: str, header_line: int) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of each line below the header that is not blank."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, delimiter=delimiter)
        for cells in reader:
            if reader.line_num > header_line and cells:
                yield reader.line_num, cells


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell
