"""Categories that a table names by words, such as yes and no, or colors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from jsa.data.schema import Words
from jsa.data.tables.values import Values, place
from jsa.errors import DataError, shortened

MOST = 256
"""The largest number of words in a column, because a class is stored as a byte."""


def in_common(tables: Iterable[Words]) -> Words:
    """Return the words of each column in any of the tables, which all have the same columns.

    They are sorted, so that the classes do not depend on the order of the rows.

    >>> in_common([(("no", "yes"), ()), (("maybe", "yes"), ())])
    (('maybe', 'no', 'yes'), ())
    """
    columns = zip(*tables, strict=True)
    return tuple(tuple(sorted({word for words in column for word in words})) for column in columns)


def refuse_too_many(words: Words, source: str) -> None:
    """Refuse a column with more words than there can be classes."""
    column = next((number for number, known in enumerate(words, start=1) if len(known) > MOST), None)
    if column is not None:
        raise DataError(
            f"{source}: column {column} (counted from 1) has more than {MOST} different words, which are too many for "
            "classes: leave out a column of names or texts"
        )


def recoded(values: Values, words: Words, wanted: Words, source: str, where: str) -> Values:
    """Return the values of a table with the classes that its words have in another one.

    Args:
        values: The values.
        words: The words of their classes.
        wanted: All words, in the order of the wanted classes.
        source: The name of the table in an error.
        where: The place of the wanted words, for an error.

    Example:
        >>> answers = Values(np.array([[0], [1]], dtype=np.uint8))
        >>> recoded(answers, (("no", "yes"),), (("maybe", "no", "yes"),), "t.csv", "in u.csv").numbers.tolist()
        [[1], [2]]
    """
    if words == wanted:
        return values
    numbers = values.numbers.copy()
    for column, (own, known) in enumerate(zip(words, wanted, strict=True)):
        if own == known:
            continue
        there = np.ones(len(values), dtype=np.bool_) if values.missing is None else ~values.missing[:, column]
        if not there.any():
            continue
        if not (own and known):
            held, other = ("words", "numbers") if own else ("numbers", "words")
            raise DataError(f"{source}: column {column + 1} (counted from 1) holds {held}, but {other} {where}")
        classes = {word: number for number, word in enumerate(known)}
        strange = [number for number, word in enumerate(own) if word not in classes]
        if strange:
            row = int(np.flatnonzero(there & np.isin(numbers[:, column], strange))[0])
            found = own[int(numbers[row, column])]
            raise DataError(
                f"{place(source, row, column)} holds {shortened(found)!r}, which is not one of the words of that "
                f"column {where}: {listed(known)}"
            )
        translation = np.array([classes[word] for word in own], dtype=np.uint8)
        numbers[there, column] = translation[numbers[there, column]]
    return replace(values, numbers=numbers)


def listed(words: Sequence[str]) -> str:
    """Join words for a sentence.

    >>> listed(("no", "yes"))
    'no, yes'
    """
    return shortened(", ".join(words))
