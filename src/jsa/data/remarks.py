"""What looks in a table as if it were no data: a column of row numbers, a header of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import UInt8

_COLUMNS_NAMED = 5


def remarks(tables: Mapping[str, UInt8[np.ndarray, "_ columns"]], classes: int) -> tuple[str, ...]:
    """A sentence where every column has more than two classes for the sake of a few columns or of the first row.

    Args:
        tables: The values of each table, by what the table is called; all have the same columns.
        classes: The number of classes that the values led to.

    Example:
        >>> numbered = np.array([[0, 1, 0], [1, 0, 0], [2, 1, 1]], dtype=np.uint8)
        >>> remarks({"t.csv": numbered}, 3)[0].partition(" and ")[0]
        'values above 1 stand only in column 1 of t.csv'
    """
    high = {source: values > 1 for source, values in tables.items() if values.max() > 1}
    if not high:
        return ()
    columns = np.flatnonzero(np.any([above.any(axis=0) for above in high.values()], axis=0)).tolist()
    total = next(iter(tables.values())).shape[1]
    # The row is looked at first: a short header may have one value above 1, which then stands in one column, too.
    if not any(above[1:].any() for above in high.values()):
        place, way_on = "the first row", "remove that row if it is a header"
    elif len(columns) <= max(1, total // 10) and len(columns) < total:
        place, way_on = _named(columns), "remove from the table what is no variable, row numbers for instance"
    else:
        return ()
    return (
        f"values above 1 stand only in {place} of {' and '.join(high)} and give every column {classes} classes: "
        f"{way_on}, or check the table with --data-classes 2",
    )


def _named(columns: Sequence[int]) -> str:
    """Columns as a person counts them.

    >>> _named([0]), _named([0, 4]), _named(range(20))
    ('column 1', 'columns 1, 5', 'columns 1, 2, 3, 4, 5 and 15 others')
    """
    listed = ", ".join(str(column + 1) for column in columns[:_COLUMNS_NAMED])
    others = f" and {len(columns) - _COLUMNS_NAMED} others" if len(columns) > _COLUMNS_NAMED else ""
    return f"column{'s' if len(columns) > 1 else ''} {listed}{others}"
