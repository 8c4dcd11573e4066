"""The user's own tables: their values, their classes and their splits."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.own_tables import loaded, save, spelled, write
from jsa.data import Splits, load
from jsa.data.schema import Schema
from jsa.data.tables.table import TableOptions, read_table, table_splits
from jsa.errors import DataError, JsaError, UsageError

pytestmark = pytest.mark.usefixtures("here")
ROWS = slice(None)


def numbers_of(splits: Splits) -> list[list[int]]:
    """The numbers that the rows of each part spell."""
    rows = [part.batch(torch.arange(len(part))).x.long() for part in splits.parts.values()]
    return [[int(number) for number in (part << torch.arange(part.shape[1])).sum(1)] for part in rows]


def with_gaps(rows: int, *gaps: tuple[int | slice, int | slice]) -> np.ndarray:
    values = spelled(rows).astype(float)
    for gap in gaps:
        values[gap] = np.nan
    return values


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".NPY", ".CSV"])
def test_a_table_is_split_by_fractions(suffix: str) -> None:
    path = save(f"saved{suffix.lower()}", spelled(100)).rename(f"table{suffix}")
    splits = load(str(path), valid_fraction=0.2, test_fraction=0.1)
    parts = numbers_of(splits)
    assert [len(rows) for rows in parts] == [70, 20, 10]
    assert sorted(itertools.chain(*parts)) == list(range(100))
    assert all(rows == sorted(rows) for rows in parts)
    assert parts[1] != list(range(20))
    assert splits.name == f"table{suffix}"
    assert (splits.schema.classes, splits.schema.image_shape) == (2, None)


def test_the_split_is_the_same_for_the_same_seed_everywhere() -> None:
    assert numbers_of(loaded(spelled(20)))[1:] == [[13, 18], [1, 4]]
    assert numbers_of(loaded(spelled(20), TableOptions(split_seed=1)))[1] != [13, 18]


def test_an_npz_may_hold_all_three() -> None:
    np.savez("table.npz", train=spelled(5), valid=spelled(2, start=5), test=spelled(1, start=7))
    assert numbers_of(load("table.npz")) == [[0, 1, 2, 3, 4], [5, 6], [7]]


def test_what_an_npz_lacks_is_taken_from_its_training_rows() -> None:
    np.savez("table.npz", train=spelled(20), test=spelled(3, start=20))
    splits = load("table.npz", valid_fraction=0.25)
    train, valid, test = numbers_of(splits)
    assert test == [20, 21, 22]
    assert sorted(train + valid) == list(range(20))
    assert len(valid) == 5
    # Rows of a table of their own count from 0, the others lead back to the table.
    assert not splits.of_one_table
    assert [splits.row_numbers(part).tolist() for part in splits.parts] == [train, valid, [0, 1, 2]]


def test_files_give_the_other_splits() -> None:
    valid, test = save("valid.csv", spelled(2, start=8)), save("test.npz", spelled(3, start=10))
    splits = loaded(spelled(8), TableOptions(valid, test))
    assert numbers_of(splits) == [list(range(8)), [8, 9], [10, 11, 12]]


def test_all_splits_share_the_classes_of_the_largest_value() -> None:
    other = save("other.npy", np.array([[4, 0]]))
    splits = loaded(np.array([[0, 1], [1, 0]]), TableOptions(other, other))
    assert splits.schema.classes == splits.test.schema.classes == 5
    assert splits.train.batch(torch.tensor([0])).x.tolist() == [[1, 0, 0, 0, 0, 0, 1, 0, 0, 0]]


def test_classes_may_be_given() -> None:
    values = np.arange(12).reshape(12, 1) % 3
    assert [loaded(values).schema.classes, loaded(values, TableOptions(classes=7)).schema.classes] == [3, 7]
    assert loaded(np.zeros((10, 3))).schema.classes == 2


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", ">i4", "int64", "uint64", "float16", "float32", "float64"])
def test_whole_numbers_of_any_type_are_taken(dtype: str) -> None:
    parts = numbers_of(loaded(np.asfortranarray(spelled(20).astype(dtype))))
    assert sorted(itertools.chain(*parts)) == list(range(20))


@pytest.mark.parametrize(
    ("value", "dtype", "written"),
    [
        (np.inf, "float64", "inf"),
        (-1, "int32", "-1"),
        (-1.0, "float64", "-1.0"),
        (0.5, "float64", "0.5"),
        (256, "int64", "256"),
        (2**40, "uint64", "1099511627776"),
    ],
)
@pytest.mark.parametrize("gap", [False, True])
def test_other_numbers_are_refused_with_their_place(value: float, dtype: str, written: str, gap: bool) -> None:
    values = np.zeros((5_000, 3), dtype=dtype)
    values[4_500, 1] = value
    if gap:
        values, written = values.astype("float64"), str(np.float64(value))
        values[7, 2] = np.nan
    sentence = rf"table\.npy: row 4501, column 2 \(counted from 1\) holds {written}, but a table holds whole"
    with pytest.raises(DataError, match=sentence):
        loaded(values)


NO_VALUE = r"column {} \(counted from 1\) has no value in the rows to .* out$"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (np.zeros(5), r"has the shape \(5,\), but a table has two dimensions"),
        (np.zeros((5, 2, 2)), r"has the shape \(5, 2, 2\), but a table has two dimensions"),
        (np.zeros((0, 2)), "has 0 rows and 2 columns, so it is empty"),
        (np.zeros((2, 0)), "has 2 rows and 0 columns, so it is empty"),
        (np.array([["0", "1"]]), "holds values of type <U1"),
        (np.zeros((2, 2), dtype=complex), "holds values of type complex128"),
        (with_gaps(20, (3, ROWS)), r"row 4 \(counted from 1\) has no value at all: leave it out"),
        (with_gaps(20, (ROWS, 3)), NO_VALUE.format(4)),
        (with_gaps(20, (ROWS, 11)), NO_VALUE.format(12)),
    ],
)
def test_what_is_no_table_is_refused(values: np.ndarray, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        loaded(values)


VALID = Path("other.npy")
LESS = "too few rows: {0}_fraction 0.1 of 4 rows is none; give a larger --{0}-fraction, .* by --{0}-file"
NONE_LEFT = "its {} to learn from; give rows of their own by --valid-file and --test-file$"
ALL = TableOptions(valid_fraction=0.6, test_fraction=0.4)


@pytest.mark.parametrize(
    ("values", "options", "error", "sentence"),
    [
        (
            np.arange(3)[:, None],
            TableOptions(classes=2),
            DataError,
            r"row 3, .* \(counted .*\) holds 2, but 2 classes go up",
        ),
        (spelled(20), TableOptions(classes=1), UsageError, "classes is 1: a variable takes between 2 and 256"),
        (spelled(8, columns=4), TableOptions(VALID), DataError, r"other\.npy has 5 columns, but .*table\.npy has 4"),
        (spelled(8), TableOptions(Path("several.npz")), DataError, "several.npz holds 2 arrays, but one is needed"),
        (spelled(4), TableOptions(), DataError, LESS.format("valid")),
        (spelled(4), TableOptions(valid_fraction=0.5), DataError, LESS.format("test")),
        (
            *(spelled(4), TableOptions(valid_fraction=0.5, test_fraction=0.5), DataError),
            "its 4 rows leave none to learn from; give smaller fractions, or rows of their own by --valid-file",
        ),
        *((spelled(1), options, DataError, NONE_LEFT.format("1 row leaves none")) for options in (TableOptions(), ALL)),
        *((spelled(2), options, DataError, NONE_LEFT.format("2 rows leave none")) for options in (TableOptions(), ALL)),
        (
            *(spelled(1, columns=5), TableOptions(VALID), DataError),
            "its 1 row leaves none to learn from; give rows of their own by --test-file",
        ),
    ],
)
def test_what_cannot_be_split_is_refused(
    values: np.ndarray, options: TableOptions, error: type[JsaError], sentence: str
) -> None:
    save("other.npy", spelled(8, columns=5))
    np.savez("several.npz", a=spelled(4), b=spelled(4))
    with pytest.raises(error, match=sentence):
        loaded(values, options)


def arrays(**named: np.ndarray) -> Callable[[], Splits]:
    """The splits of a table of these arrays."""

    def read() -> Splits:
        np.savez("table.npz", allow_pickle=False, **named)
        return load("table.npz")

    return read


FEW = spelled(4)
SPARSE = {"data": FEW, "indices": FEW, "indptr": FEW, "shape": np.array([2, 2]), "format": np.array(b"csr")}


@pytest.mark.parametrize(
    ("read", "sentence"),
    [
        (arrays(one=FEW, two=FEW), "holds the arrays one, two: a .npz table holds one"),
        (arrays(valid=FEW, test=FEW), "holds the arrays test, valid: a .npz table holds one"),
        (arrays(train=FEW, valid=FEW, labels=FEW), "holds the arrays labels, train, valid: a .npz table holds one"),
        (arrays(**SPARSE), r"holds a sparse matrix: save it as an array, by numpy\.savez"),
        (
            lambda: load(str(write(Path("last.csv"), "0,1,\n1,0,\n" * 10))),
            "column 3 .*: leave it out, or the delimiter at the end of each line",
        ),
    ],
)
def test_other_files_are_refused(read: Callable[[], Splits], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        read()


def test_a_split_is_given_once() -> None:
    np.savez("table.npz", train=spelled(5), valid=spelled(2))
    with pytest.raises(UsageError, match="has an array 'valid' of its own: leave out the valid file"):
        load("table.npz", valid_file=save("other.npy", spelled(2)))


def test_one_row_is_enough_beside_other_tables() -> None:
    path = save("other.npy", spelled(1))
    assert len(loaded(spelled(1), TableOptions(path, path)).train) == 1


def test_row_numbers_lead_back_to_the_table() -> None:
    splits = loaded(spelled(50))
    assert splits.of_one_table
    assert [splits.row_numbers(part).tolist() for part in splits.parts] == numbers_of(splits)


def test_all_rows_of_another_table() -> None:
    path = save("other.csv", np.array([[0, 2], [1, 0], [2, 1]]))
    rows = read_table(path, Schema.of(2, classes=5))
    every = torch.arange(3)
    assert rows.schema == Schema.of(2, classes=5)
    assert rows.batch(every).x.unflatten(1, (2, 5)).argmax(-1).tolist() == [[0, 2], [1, 0], [2, 1]]
    halves = read_table(path, Schema.of(2, classes=5).conditioned(1)).batch(every)
    assert halves.context is not None
    assert (halves.context.argmax(-1).tolist(), halves.x.argmax(-1).tolist()) == ([0, 1, 2], [2, 0, 1])
    with pytest.raises(DataError, match=r"other\.csv must have as many columns as the data of the run: 3, not 2"):
        read_table(path, Schema.of(3, classes=5).conditioned(1))
    with pytest.raises(DataError, match=r"row 1, column 2 \(counted from 1\) holds 2, but 2 classes go up to 1"):
        read_table(path, Schema.of(2))


def test_odd_values_are_remarked_upon_unless_the_classes_are_given() -> None:
    values = np.column_stack([np.arange(20), spelled(20)])
    (note,) = loaded(values).notes
    assert note.startswith("values above 1 occur only in column 1 of table.npy and give every column 20 classes: remo")
    assert loaded(values, TableOptions(classes=20)).notes == loaded(spelled(20)).notes == ()


def test_tabs_have_an_ending_of_their_own() -> None:
    Path("mine.tsv").write_text("a\tb\n" + "0\t1\n" * 20)
    splits = load("mine.tsv")
    assert splits.schema.column_names == ("a", "b")
    assert len(splits.train) == 16


@pytest.mark.parametrize("suffix", ["npy", "csv"])
def test_missing_values_go_with_their_rows(suffix: str) -> None:
    values = with_gaps(100, (3, 0), (50, 11), (51, 2))
    splits = load(str(save(f"table.{suffix}", values)))
    assert splits.schema.missing
    assert splits.summary.endswith("; 12 columns, binary; 3 values missing (0.2%)")
    for name, part in splits.parts.items():
        found = part.batch(torch.arange(len(part))).x.numpy()
        assert np.array_equal(found, values[splits.row_numbers(name)], equal_nan=True)


def test_a_part_without_gaps_has_none() -> None:
    gaps, full = save("gaps.npy", with_gaps(20, (3, 0))), save("full.npy", spelled(20))
    splits = table_splits(gaps, TableOptions(test_file=full))
    assert splits.test.missing is None
    assert splits.schema.missing
    assert splits.notes == ()
    splits = table_splits(full, TableOptions(valid_file=gaps, test_file=full))
    assert not splits.schema.missing
    assert "values are missing in rows to validate or test with, but in none to learn from" in splits.notes[0]


def test_a_column_without_a_value_to_learn_from_is_refused() -> None:
    values = with_gaps(100, (ROWS, 3))
    values[loaded(spelled(100)).row_numbers("test"), 3] = 1
    with pytest.raises(DataError, match=r"column 4 \(counted from 1\) has no value in the rows to learn from"):
        loaded(values)


def test_no_value_of_a_context_is_missing() -> None:
    half, gap = Schema.of(12).conditioned(6), save("new.npy", with_gaps(100, (37, 2)))
    sentence = r"new\.npy: row 38, column 3 \(counted from 1\) is missing, but the first 6 columns are the context"
    with pytest.raises(DataError, match=sentence):
        read_table(gap, half)
    with pytest.raises(DataError, match=sentence):
        load("new.npy").split_context(6)
    apart = loaded(spelled(100), TableOptions(test_file=gap))
    with pytest.raises(DataError, match=r"the test table of table\.npy: row 38, column 3"):
        apart.split_context(6)
    other = save("other.npy", with_gaps(20, (3, 6)))
    assert read_table(other, half).batch(torch.tensor([3])).x[0, 0].isnan()
