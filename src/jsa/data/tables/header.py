"""The first line of a text table: a header or a row."""

from __future__ import annotations

from collections import Counter

import numpy as np

from jsa.data.schema import Words
from jsa.data.tables.cells import as_word, is_missing, is_number
from jsa.data.tables.values import Values
from jsa.errors import shortened

_FEW_ROWS = 10
"""In a table of fewer rows, a word that occurs only in the first row is not unusual."""


def may_be_header(cells: list[str]) -> bool:
    """Return whether a first line can be a header: none of its cells is a number.

    >>> may_be_header(["smokes", "age"]), may_be_header(["smokes", "2020"]), may_be_header(["", "NA"])
    (True, False, False)
    """
    return not any(map(is_number, cells)) and not all(map(is_missing, cells))


def standing_again(header: tuple[str, ...] | None, words: Words) -> list[str]:
    """Return the cells of a first line that are words of their columns, so that it is a row.

    >>> standing_again(("yes", "violet"), (("no", "yes"), ("blue", "red")))
    ['yes']
    """
    if header is None or len(header) != len(words):
        return []
    return [cell for cell, known in zip(map(as_word, header), words, strict=True) if cell in known]


def column_names(header: tuple[str, ...] | None, path: str, columns: int) -> tuple[tuple[str, ...] | None, list[str]]:
    """Return the names of the columns if they are unique and complete, else None and a warning."""
    if header is None:
        return None, []
    names = tuple(shortened("".join(filter(str.isprintable, cell)).strip()) for cell in header)
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if len(names) != columns:
        why = f"has {len(names)} names for {columns} columns"
    elif not all(names):
        why = f"has no name for column {names.index('') + 1}"
    elif twice is not None:
        why = f"has the name '{twice}' twice"
    else:
        return names, []
    return None, [f"the header of {path} {why}, so that columns go by their numbers"]


def first_line_remarks(values: Values, words: Words, path: str) -> list[str]:
    """Return a warning if the first line was read as a row of words but looks like a header.

    Args:
        values: The values, words as classes.
        words: The words of each column.
        path: The name of the table.
    """
    numbers, missing = values.numbers, values.missing
    of_words = [column for column, known in enumerate(words) if known and (missing is None or not missing[0, column])]
    if not of_words or len(values) < _FEW_ROWS:
        return []
    as_first = numbers == numbers[0] if missing is None else (numbers == numbers[0]) & ~missing
    counts = as_first[:, of_words].sum(axis=0)
    if (counts == 1).all():
        word = shortened(words[of_words[0]][int(numbers[0, of_words[0]])])
        return [
            f"words of the first line of {path}, such as '{word}', occur nowhere else in their columns: if it is a "
            "header, leave no numbers in it, for a line with numbers is a row"
        ]
    lines = int(as_first.all(axis=1).sum())
    if len(of_words) > 1 and lines > 1 and np.all(counts == lines):
        return [f"the first line of {path} is repeated, and its words occur in no other line: remove repeated headers"]
    return []
