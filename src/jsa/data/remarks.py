"""What looks in a table as if it were no data: a column of row numbers or names, a header of numbers, classes counted
from 1, a word that is written in two ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jsa.data.values import Values
from jsa.data.words import Words
from jsa.errors import shortened

_COLUMNS_NAMED = 5
_FEW_WORDS = 10
_MANY = 2
"""How many times the classes of the other columns a column of more than two classes must need to be remarked upon."""


def remarks(tables: Mapping[str, Values], classes: int, words: Words = ()) -> tuple[str, ...]:
    """Sentences about values that give columns more classes than they need.

    Args:
        tables: The values of each table, by what the table is called; all have the same columns.
        classes: The number of classes that the values led to.
        words: The words that the classes of each column stand for, none for a column of numbers.

    Example:
        >>> numbered = np.array([[0, 1, 0], [1, 0, 0], [2, 1, 1]], dtype=np.uint8)
        >>> remarks({"t.csv": Values(numbered)}, 3)[0].partition(" and ")[0]
        'values above 1 stand only in column 1 of t.csv'
    """
    if classes == 2:
        return _written_twice(words)
    of_numbers = _few_places(tables, classes, [column for column, known in enumerate(words) if known])
    of_words = (*_written_twice(words), *_names_of_rows(tables, words, classes))
    return (*_counted_from_one(tables, classes), *of_numbers, *of_words)


def _counted_from_one(tables: Mapping[str, Values], classes: int) -> tuple[str, ...]:
    if any(bool(table.there(0).any()) for table in tables.values()):
        return ()
    return (
        f"no value of {' and '.join(tables)} is 0, and classes are counted from 0: subtract 1 from every value, for "
        f"{classes - 1} classes instead of {classes}",
    )


def _written_twice(words: Words) -> tuple[str, ...]:
    """A sentence about words of a column that differ in capital letters only.

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


def _names_of_rows(tables: Mapping[str, Values], words: Words, classes: int) -> tuple[str, ...]:
    """A sentence about columns of nearly as many words as rows."""
    rows = sum(map(len, tables.values()))
    columns = [column for column, known in enumerate(words) if len(known) > max(_FEW_WORDS, rows // 2)]
    if not columns:
        return ()
    return (
        f"few words come twice in {_named(columns)} of {' and '.join(tables)}, which gives every column {classes} "
        "classes: remove what names the rows",
    )


def _few_places(tables: Mapping[str, Values], classes: int, of_words: Sequence[int]) -> tuple[str, ...]:
    """A sentence where a few columns, or the first row, give the number of classes, and the others need fewer.

    Columns of words are right to have as many classes as words.
    """
    # The row is looked at first: a short header may have one large value, which then stands in one column, too.
    others = max((int(table.numbers[1:].max(initial=0)) for table in tables.values()), default=0)
    if not of_words and len(next(iter(tables.values()))) > 1 and _stands_out(classes, others):
        place, way_on = "the first row", "remove that row if it is a header"
    else:
        highest = np.max([table.numbers.max(axis=0) for table in tables.values()], axis=0)
        few = max(1, len(highest) // 10)
        # What the columns need but for the few that need most.
        others = int(np.sort(highest)[:-few].max(initial=0))
        columns = np.flatnonzero(highest > max(1, others)).tolist()
        if len(columns) == len(highest) or not _stands_out(classes, others) or set(columns) & set(of_words):
            return ()
        place, way_on = _named(columns), "remove from the table what is no variable, row numbers for instance"
    usual = max(1, others)
    sources = [source for source, table in tables.items() if int(table.numbers.max()) > usual]
    return (
        f"values above {usual} stand only in {place} of {' and '.join(sources)} and give every column {classes} "
        f"classes: {way_on}, or check the table with --data-classes {usual + 1}",
    )


def _stands_out(classes: int, highest_of_others: int) -> bool:
    """Whether what gives the number of classes is unlike the others: they are bits, or need half as many at most."""
    return classes > 2 and (highest_of_others <= 1 or classes >= _MANY * (highest_of_others + 1))


def _named(columns: Sequence[int]) -> str:
    """Columns as a person counts them.

    >>> _named([0]), _named([0, 4]), _named(range(20))
    ('column 1', 'columns 1, 5', 'columns 1, 2, 3, 4, 5 and 15 others')
    """
    listed = ", ".join(str(column + 1) for column in columns[:_COLUMNS_NAMED])
    others = f" and {len(columns) - _COLUMNS_NAMED} others" if len(columns) > _COLUMNS_NAMED else ""
    return f"column{'s' if len(columns) > 1 else ''} {listed}{others}"
