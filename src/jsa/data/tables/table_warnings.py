"""Warnings about tables: a column of row numbers or names, a header of numbers, classes counted from 1, or two
spellings of a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jsa.data.schema import Words
from jsa.data.tables.values import Values
from jsa.errors import shortened

_COLUMNS_NAMED = 5
_FEW_WORDS = 10
_MANY = 2
"""A column of more than two classes causes a warning if it has this many times the classes of the other columns."""


def about_numbers(tables: Mapping[str, Values], words: Words = ()) -> tuple[str, ...]:
    """Return warnings about numbers that give columns more classes than they need.

    Args:
        tables: The values of each table by its name; all have the same columns.
        words: The word for each class of each column, empty for a column of numbers.

    Example:
        >>> numbered = np.array([[0, 1, 0], [1, 0, 0], [2, 1, 1]], dtype=np.uint8)
        >>> about_numbers({"t.csv": Values(numbered)})[0].partition(" and ")[0]
        'values above 1 occur only in column 1 of t.csv'
    """
    columns = np.array([column for column, known in enumerate(words) if not known]) if any(words) else None
    if columns is not None:
        if not len(columns):
            return ()
        tables = {source: table.of_columns(columns) for source, table in tables.items()}
    classes = max(table.classes for table in tables.values())
    if classes == 2:
        return ()
    return (*_counted_from_one(tables, classes), *_few_places(tables, classes, columns))


def about_words(tables: Mapping[str, Values], words: Words) -> tuple[str, ...]:
    """Return warnings about columns with too many words, or with words that differ too little.

    Args:
        tables: The values of each table by its name; all have the same columns.
        words: The word for each class of each column, empty for a column of numbers.
    """
    return (*_written_twice(words), *_many_words(tables, words))


def _counted_from_one(tables: Mapping[str, Values], classes: int) -> tuple[str, ...]:
    if any(bool(table.there(0).any()) for table in tables.values()):
        return ()
    return (
        f"no value of {' and '.join(tables)} is 0, and classes are counted from 0: subtract 1 from every value, for "
        f"{classes - 1} classes instead of {classes}",
    )


def _few_places(tables: Mapping[str, Values], classes: int, columns: np.ndarray | None) -> tuple[str, ...]:
    """Return a warning if a few columns, or the first row, determine the number of classes and the others need fewer.

    The columns are those of numbers, by their places in the table; None for all.
    """
    # The row comes first: a header may have a single large value, which then is in a single column, too.
    others = max((int(table.numbers[1:].max(initial=0)) for table in tables.values()), default=0)
    if len(next(iter(tables.values()))) > 1 and _stands_out(classes, others):
        place, way_on = "the first row", "remove that row if it is a header"
    else:
        highest = np.max([table.numbers.max(axis=0) for table in tables.values()], axis=0)
        few = max(1, len(highest) // 10)
        # The classes that the columns need, except the few that need most.
        others = int(np.sort(highest)[:-few].max(initial=0))
        found = np.flatnonzero(highest > max(1, others))
        if len(found) == len(highest) or not _stands_out(classes, others):
            return ()
        place = _named((found if columns is None else columns[found]).tolist())
        way_on = "remove columns that are not variables, such as row numbers"
    usual, every = max(1, others), "every column" if columns is None else "every column of numbers"
    sources = [source for source, table in tables.items() if int(table.numbers.max()) > usual]
    return (
        f"values above {usual} occur only in {place} of {' and '.join(sources)} and give {every} {classes} "
        f"classes: {way_on}, or check the table with --data-classes {usual + 1}",
    )


def _written_twice(words: Words) -> tuple[str, ...]:
    """Return a warning about words of a column that differ in case only.

    >>> _written_twice((("No", "Yes", "no"), ("No", "Yes")))
    ("column 1 has the words 'No' and 'no': write them alike if they mean the same",)
    """
    found = []
    for column, known in enumerate(words, start=1):
        first: dict[str, str] = {}
        twice = next((word for word in known if first.setdefault(word.casefold(), word) != word), None)
        if twice is not None:
            one, other = shortened(first[twice.casefold()]), shortened(twice)
            found.append(f"column {column} has the words '{one}' and '{other}': write them alike if they mean the same")
    return tuple(found[:_COLUMNS_NAMED])


def _many_words(tables: Mapping[str, Values], words: Words) -> tuple[str, ...]:
    """Return a warning about columns with many more words than others, or nearly as many as there are rows."""
    rows = sum(map(len, tables.values()))
    counts = np.array([len(known) for known in words])
    usual = int(np.sort(counts)[: -max(1, len(counts) // 10)].max(initial=0))
    many = np.flatnonzero((counts > _FEW_WORDS) & (counts > min(_MANY * usual, rows // 2))).tolist()
    if not many:
        return ()
    most = int(counts.max())
    return (
        f"{_named(many)} of {' and '.join(tables)} {'has' if len(many) == 1 else 'have'} up to {most} words, and every "
        f"column takes the work of {most} classes: join rare words, or remove what names the rows",
    )


def _stands_out(classes: int, highest_of_others: int) -> bool:
    """Return whether the others are bits or need at most half as many classes."""
    return classes > 2 and (highest_of_others <= 1 or classes >= _MANY * (highest_of_others + 1))


def _named(columns: Sequence[int]) -> str:
    """Name columns, counted from 1.

    >>> _named([0]), _named([0, 4]), _named(range(20))
    ('column 1', 'columns 1, 5', 'columns 1, 2, 3, 4, 5 and 15 others')
    """
    listed = ", ".join(str(column + 1) for column in columns[:_COLUMNS_NAMED])
    others = f" and {len(columns) - _COLUMNS_NAMED} others" if len(columns) > _COLUMNS_NAMED else ""
    return f"column{'s' if len(columns) > 1 else ''} {listed}{others}"
