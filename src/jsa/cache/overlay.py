"""What was written to memory-mapped chains since the last checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from jsa.cache.record import Records

_FIRST_CAPACITY = 1024


class Overlay:
    """Rows in memory that stand before those of the file: its size follows the rows touched, not the rows held."""

    def __init__(self, kind: np.dtype[np.void]) -> None:
        self._kind = kind
        self.clear()

    def __len__(self) -> int:
        return len(self._slots)

    def clear(self) -> None:
        """Forgets everything."""
        # A new row takes the next slot, so the rows stand in the order of their slots.
        self._slots: dict[int, int] = {}
        self._records: Records = np.zeros(_FIRST_CAPACITY, self._kind)

    def slots(self, rows: Sequence[int]) -> npt.NDArray[np.int64]:
        """Where these rows stand, -1 for a row that is not here."""
        find = self._slots.get
        return np.array([find(row, -1) for row in rows], dtype=np.int64)

    def take(self, slots: npt.NDArray[np.int64]) -> Records:
        """Copies of what stands in these slots."""
        return self._records[slots]

    def put(self, rows: Sequence[int], records: Records) -> None:
        """Stores rows, of which none occurs twice."""
        known = self._slots
        slots = [known.setdefault(row, len(known)) for row in rows]
        if len(known) > len(self._records):
            grown = np.zeros(max(len(known), 2 * len(self._records)), self._kind)
            grown[: len(self._records)] = self._records
            self._records = grown
        self._records[slots] = records

    def sorted(self, rows_at_once: int) -> Iterator[tuple[npt.NDArray[np.int64], Records]]:
        """Everything by row number, some at a time; one empty part where there is nothing."""
        rows = np.fromiter(self._slots, np.int64, len(self._slots))
        order = rows.argsort()
        for start in range(0, max(len(rows), 1), rows_at_once):
            some = order[start : start + rows_at_once]
            yield rows[some], self._records[some]
