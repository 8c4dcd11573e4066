"""What rows are made of."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.small_runs import patterned
from jsa.data.schema import RowShape
from jsa.errors import UsageError
from jsa.io.json_records import from_record, to_record

HALVES: dict[str, Any] = {"observed_columns": 392, "context_columns": 392, "classes": 2, "image_shape": (28, 28)}


def test_it_counts_as_the_rows_do() -> None:
    rows = patterned(10, seed=0).split_context(5)
    shape = RowShape(rows.observed_columns, rows.context_columns, rows.classes, None)
    assert (shape.columns, shape.context_width) == (rows.observed_columns + 5, rows.context_width)


def test_it_comes_back_from_its_record() -> None:
    shape = RowShape(**HALVES)
    assert from_record(RowShape, to_record(shape)) == shape


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"observed_columns": 0}, "1 or more observed columns and 0 or more of context, not 0 and 392"),
        ({"context_columns": -1}, "1 or more observed columns and 0 or more of context, not 392 and -1"),
        ({"classes": 1}, "classes is 1: a variable takes between 2 and 256 values"),
        ({"image_shape": [27, 28]}, "a row of 784 columns is no picture of 27 x 28"),
        ({"image_shape": [-28, -28]}, "a row of 784 columns is no picture of -28 x -28"),
        ({"image_shape": [784]}, r"image_shape must be a list of 2, not \[784\]"),
    ],
)
def test_what_no_row_is_made_of_is_refused(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        from_record(RowShape, {**HALVES, "image_shape": [28, 28], **change})
