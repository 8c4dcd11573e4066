"""What rows are made of."""

from __future__ import annotations

import pytest

from jsa.data.schema import Schema
from jsa.errors import UsageError
from jsa.io.json_records import from_record, to_record

HALVES = Schema.of(784, image_shape=(28, 28)).conditioned(392)


def test_it_comes_back_from_its_record() -> None:
    assert from_record(Schema, to_record(HALVES)) == HALVES


def test_a_context_can_be_given_back() -> None:
    assert HALVES.conditioned(0) == Schema.of(784, image_shape=(28, 28))
    assert (HALVES.observed_columns, HALVES.context_columns, HALVES.columns) == (392, 392, 784)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"observed_columns": 0}, "1 or more observed columns and 0 or more of context, not 0 and 392"),
        ({"context_columns": -1}, "1 or more observed columns and 0 or more of context, not 392 and -1"),
        ({"classes": 1}, "classes is 1: a variable takes between 2 and 256 values"),
        ({"classes": 257}, "classes is 257: a variable takes between 2 and 256 values"),
        ({"image_shape": [27, 28]}, "a row of 784 columns is not an image of 27 x 28"),
        ({"image_shape": [-28, -28]}, "a row of 784 columns is not an image of -28 x -28"),
        ({"image_shape": [784]}, r"image_shape must be a list of 2, not \[784\]"),
    ],
)
def test_what_no_row_is_made_of_is_refused(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        from_record(Schema, {**to_record(HALVES), **change})
