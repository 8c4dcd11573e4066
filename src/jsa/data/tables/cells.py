"""The cells of a text table: numbers, words, or missing values."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
from jaxtyping import Float64, Int32

from jsa.data.schema import Words
from jsa.data.tables.categories import MOST, in_common, refuse_too_many
from jsa.data.tables.values import RULE
from jsa.errors import DataError, shortened

_MISSING = {"", "-", ".", "?", "na", "n/a", "none", "null", "nan", "-nan", "+nan"}
"""The ways in which programs write a missing value, in lower case."""

_DOUBTFUL = {"-", "none"}
"""Those that may also be an answer."""

_NOTHING, _NUMBER, _WORD = range(3)
_LONGEST_WORD = 100
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+")

_NO_HEADER = "a first line is taken for a header where none of its cells is a number"


class Cells:
    """The cells of a table, read line by line.

    Cells repeat, so each different one is parsed once.

    Args:
        source: The name of the table in an error.
        has_header: Whether there is a header above the first row.
    """

    def __init__(self, source: str, *, has_header: bool) -> None:
        self._source = source
        self._has_header = has_header
        self._places: dict[str, int] = {}  # of each different cell, in the order in which they came
        self._rows: list[Int32[np.ndarray, " columns"]] = []
        self._lines: list[int] = []
        self._looked_at_from = 0

    def add(self, line: int, cells: list[str]) -> None:
        """Add the cells of a line, or refuse the first invalid one."""
        for column, cell in enumerate(cells, start=1):
            if cell not in self._places:
                if (fault := self._fault(cell)) is not None:
                    raise DataError(f"{self._source}: line {line}, column {column} {fault}")
                self._places[cell] = len(self._places)
        if self._rows and len(cells) != len(self._rows[0]):
            first = len(self._rows[0])
            raise DataError(f"{self._source}: line {line} has {len(cells)} cells, but the first row has {first}")
        self._rows.append(np.array([self._places[cell] for cell in cells], dtype=np.int32))
        self._lines.append(line)
        # A file of free text is refused before all of it is in memory.
        if len(self._places) > 2 * max(self._looked_at_from, MOST * len(cells)):
            self._looked_at_from = len(self._places)
            self._words()

    def values(self) -> tuple[Float64[np.ndarray, "rows columns"], Words]:
        """Return the numbers and the classes of words, NaN for missing values, and the words of each column."""
        if not self._rows:
            raise DataError(f"{self._source} holds no rows below its header")
        words = self._words()
        table = np.empty((len(self._rows), len(words)))
        cells, rows = list(self._places), np.stack(self._rows)
        numbers = np.array([float(cell) if _kind(cell) == _NUMBER else np.nan for cell in cells])
        for column, known in enumerate(words):
            values = numbers
            if known:
                classes = {word: number for number, word in enumerate(known)}
                there = np.unique(rows[:, column])
                values = np.full(len(cells), np.nan)
                values[there] = [classes.get(as_word(cells[place]), np.nan) for place in there]
            table[:, column] = values[rows[:, column]]
        return table, words

    def remarks(self, words: Words) -> list[str]:
        """Return warnings about cells that count as missing values in columns of words."""
        doubtful = {place: cell.strip() for cell, place in self._places.items() if cell.strip().lower() in _DOUBTFUL}
        if not doubtful:
            return []
        rows = np.stack(self._rows)
        return [
            f"'{cell}' in column {column + 1} of {self._source} is taken for a missing value: write another word if it "
            "is an answer"
            for place, cell in doubtful.items()
            for column, known in enumerate(words)
            if known and (rows[:, column] == place).any()
        ]

    def _words(self) -> Words:
        """Return the words of each column, which has either words or numbers."""
        cells, rows = list(self._places), np.stack(self._rows)
        kinds = np.array([_kind(cell) for cell in cells])
        are_numbers, are_words = kinds == _NUMBER, kinds == _WORD
        words = []
        strange: list[tuple[int, int]] = []
        for column in range(rows.shape[1]):
            counts = np.bincount(rows[:, column], minlength=len(cells))
            numbers, others = int(counts[are_numbers].sum()), int(counts[are_words].sum())
            if numbers and others:
                fewer = _WORD if numbers >= others else _NUMBER
                strange.append((int(np.argmax(kinds[rows[:, column]] == fewer)), column))
            words.append(tuple({as_word(cells[place]) for place in np.flatnonzero(counts * are_words)}))
        refuse_too_many(tuple(words), self._source)
        if strange:
            self._refuse(*min(strange))
        return in_common([tuple(words)])

    def _refuse(self, row: int, column: int) -> None:
        cell = list(self._places)[self._rows[row][column]]
        if _kind(cell) == _NUMBER:
            fault = f"holds {cell.strip()}, but the others of its column are words: a column holds numbers or words"
        else:
            header = f"; {_NO_HEADER}" if row == 0 and not self._has_header else ""
            fault = (
                f"holds '{shortened(cell)}', which is not a number: write values as 0, 1, 2 and so on, or its whole "
                f"column as words{header}"
            )
        raise DataError(f"{self._source}: line {self._lines[row]}, column {column + 1} {fault}")

    def _fault(self, cell: str) -> str | None:
        """Return what is wrong with a cell whatever its column; None if nothing is."""
        row, held, kind = len(self._rows), cell.strip(), _kind(cell)
        if kind == _NOTHING:
            return None
        if kind == _WORD and not _DECIMAL_COMMA.fullmatch(held):
            if len(held) <= _LONGEST_WORD and not _CONTROL.search(held):
                return None
            return f"holds '{shortened(cell)}', which is neither a number nor a word"
        if kind == _NUMBER and 0 <= float(cell) <= 255 and float(cell).is_integer():
            return None
        numbered = "; leave out a column of row numbers" if row > 1 and held in (str(row), str(row + 1)) else ""
        header = f"; {_NO_HEADER}" if row == 0 and not self._has_header else ""
        return f"holds {shortened(held)}, but {RULE}{numbered}{header}"


def as_word(cell: str) -> str:
    """Return the word of a cell, normalized for comparison.

    >>> as_word(" caf\\u00e9 ") == as_word("cafe\\u0301")
    True
    """
    return unicodedata.normalize("NFC", cell.strip())


def is_missing(cell: str) -> bool:
    """Return whether a cell marks a missing value.

    >>> is_missing(" n/a"), is_missing("+NaN"), is_missing("0"), is_missing("no"), is_missing("+")
    (True, True, False, False, False)
    """
    return cell.strip().lower() in _MISSING


def is_number(cell: str) -> bool:
    """Return whether a cell contains a number of any kind.

    >>> is_number(" 1e3"), is_number("1_000"), is_number("one")
    (True, False, False)
    """
    held = cell.strip()
    try:
        float(held)
    except ValueError:
        return False
    # Python accepts more number formats than numpy does.
    return "_" not in held and held.isascii()


def _kind(cell: str) -> int:
    return _NOTHING if is_missing(cell) else _NUMBER if is_number(cell) else _WORD
