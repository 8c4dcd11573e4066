"""The user's own tables: their values, their classes and their splits."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from jsa.data import Splits, load
from jsa.data.schema import Schema
from jsa.data.tables.table import TableOptions, read_table, table_splits
from jsa.errors import DataError, UsageError


def spelled(rows: int, columns: int = 10, start: int = 0) -> np.ndarray:
    """Rows that spell their own number in binary."""
    numbers = np.arange(start, start + rows)
    return ((numbers[:, None] >> np.arange(columns)) & 1).astype(np.uint8)


def numbers_of(splits: Splits, part: str) -> list[int]:
    rows = getattr(splits, part).rows.numpy().astype(int)
    return (rows << np.arange(rows.shape[1])).sum(axis=1).tolist()


def saved(path: Path, values: np.ndarray) -> str:
    if path.suffix == ".npy":
        np.save(path, values)
    elif path.suffix == ".npz":
        np.savez(path, values)
    else:
        np.savetxt(path, values, fmt="%g", delimiter=",")
    return str(path)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".NPY", ".CSV"])
def test_a_table_is_split_by_fractions(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    Path(saved(tmp_path / f"saved{suffix.lower()}", spelled(100))).rename(path)
    splits = load(str(path), valid_fraction=0.2, test_fraction=0.1)
    parts = {part: numbers_of(splits, part) for part in ("train", "valid", "test")}
    assert [len(rows) for rows in parts.values()] == [70, 20, 10]
    assert sorted(itertools.chain(*parts.values())) == list(range(100))
    assert all(rows == sorted(rows) for rows in parts.values())
    assert parts["valid"] != list(range(20))
    assert splits.name == f"table{suffix}"
    assert (splits.schema.classes, splits.schema.image_shape) == (2, None)


def test_the_split_is_the_same_for_the_same_seed_everywhere(tmp_path):
    path = saved(tmp_path / "table.npy", spelled(20))
    assert numbers_of(load(path), "valid") == [13, 18]
    assert numbers_of(load(path), "test") == [1, 4]
    assert numbers_of(load(path, split_seed=1), "valid") != [13, 18]


def test_an_npz_may_hold_all_three(tmp_path):
    path = tmp_path / "table.npz"
    np.savez(path, train=spelled(5), valid=spelled(2, start=5), test=spelled(1, start=7))
    splits = load(str(path))
    assert numbers_of(splits, "train") == [0, 1, 2, 3, 4]
    assert numbers_of(splits, "valid") == [5, 6]
    assert numbers_of(splits, "test") == [7]


def test_what_an_npz_lacks_is_taken_from_its_training_rows(tmp_path):
    path = tmp_path / "table.npz"
    np.savez(path, train=spelled(20), test=spelled(3, start=20))
    splits = load(str(path), valid_fraction=0.25)
    assert numbers_of(splits, "test") == [20, 21, 22]
    assert sorted(numbers_of(splits, "train") + numbers_of(splits, "valid")) == list(range(20))
    assert len(splits.valid) == 5


def test_files_give_the_other_splits(tmp_path):
    path = saved(tmp_path / "train.npy", spelled(8))
    valid = Path(saved(tmp_path / "valid.csv", spelled(2, start=8)))
    test = Path(saved(tmp_path / "test.npz", spelled(3, start=10)))
    splits = load(path, valid_file=valid, test_file=test)
    assert numbers_of(splits, "train") == list(range(8))
    assert numbers_of(splits, "valid") == [8, 9]
    assert numbers_of(splits, "test") == [10, 11, 12]


def test_all_splits_share_the_classes_of_the_largest_value(tmp_path):
    path = saved(tmp_path / "train.npy", np.array([[0, 1], [1, 0]]))
    other = Path(saved(tmp_path / "other.npy", np.array([[4, 0]])))
    splits = load(path, valid_file=other, test_file=other)
    assert splits.schema.classes == splits.test.schema.classes == 5
    assert splits.train.batch(torch.tensor([0])).x.tolist() == [[1, 0, 0, 0, 0, 0, 1, 0, 0, 0]]


def test_classes_may_be_given(tmp_path):
    path = saved(tmp_path / "table.npy", np.arange(12).reshape(12, 1) % 3)
    assert load(path).schema.classes == 3
    assert load(path, classes=7).schema.classes == 7
    with pytest.raises(DataError, match=r"row 3, column 1 \(counted from 1\) holds 2, but 2 classes go up to 1"):
        load(path, classes=2)
    with pytest.raises(UsageError, match="classes is 1: a variable takes between 2 and 256"):
        load(path, classes=1)


def test_a_table_of_zeros_is_binary(tmp_path):
    assert load(saved(tmp_path / "table.npy", np.zeros((10, 3)))).schema.classes == 2


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", ">i4", "int64", "uint64", "float16", "float32", "float64"])
def test_whole_numbers_of_any_type_are_taken(tmp_path, dtype):
    splits = load(saved(tmp_path / "table.npy", np.asfortranarray(spelled(20).astype(dtype))))
    assert sorted(numbers_of(splits, "train") + numbers_of(splits, "valid") + numbers_of(splits, "test")) == [
        *range(20)
    ]


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
def test_other_numbers_are_refused_with_their_place(tmp_path, value, dtype, written, gap):
    values = np.zeros((5_000, 3), dtype=dtype)
    values[4_500, 1] = value
    if gap:
        values, written = values.astype("float64"), str(np.float64(value))
        values[7, 2] = np.nan
    sentence = rf"table\.npy: row 4501, column 2 \(counted from 1\) holds {written}, but a table holds whole"
    with pytest.raises(DataError, match=sentence):
        load(saved(tmp_path / "table.npy", values))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (np.zeros(5), r"has the shape \(5,\), but a table has two dimensions"),
        (np.zeros((5, 2, 2)), r"has the shape \(5, 2, 2\), but a table has two dimensions"),
        (np.zeros((0, 2)), "has 0 rows and 2 columns: it holds nothing"),
        (np.zeros((2, 0)), "has 2 rows and 0 columns: it holds nothing"),
        (np.array([["0", "1"]]), "holds values of type <U1"),
        (np.zeros((2, 2), dtype=complex), "holds values of type complex128"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, values, sentence):
    np.save(tmp_path / "table.npy", values)
    with pytest.raises(DataError, match=sentence):
        load(str(tmp_path / "table.npy"))


def test_columns_must_agree(tmp_path):
    path = saved(tmp_path / "train.npy", spelled(8, columns=4))
    other = Path(saved(tmp_path / "other.npy", spelled(8, columns=5)))
    with pytest.raises(DataError, match=r"other\.npy has 5 columns, but .*train\.npy has 4: they must agree"):
        load(path, valid_file=other)


@pytest.mark.parametrize("names", [("one", "two"), ("valid", "test"), ("train", "valid", "labels")])
def test_arrays_of_other_names_are_refused(tmp_path, names):
    path = tmp_path / "table.npz"
    np.savez(path, **{name: spelled(4) for name in names})
    with pytest.raises(DataError, match=f"holds the arrays {', '.join(sorted(names))}: a .npz table holds one"):
        load(str(path))


def test_a_split_file_holds_one_array(tmp_path):
    several = tmp_path / "several.npz"
    np.savez(several, a=spelled(4), b=spelled(4))
    with pytest.raises(DataError, match=r"several.npz holds 2 arrays, but one is needed"):
        load(saved(tmp_path / "table.npy", spelled(8)), valid_file=several)


def test_a_split_is_given_once(tmp_path):
    path = tmp_path / "table.npz"
    np.savez(path, train=spelled(5), valid=spelled(2))
    other = Path(saved(tmp_path / "other.npy", spelled(2)))
    with pytest.raises(UsageError, match="has an array 'valid' of its own: leave out the valid file"):
        load(str(path), valid_file=other)


def test_too_few_rows_are_refused_with_what_to_give(tmp_path):
    sentence = r"too few rows: valid_fraction 0.1 of 4 rows is none; give a larger --valid-fraction, .* by --valid-file"
    with pytest.raises(DataError, match=sentence):
        load(saved(tmp_path / "table.npy", spelled(4)))
    sentence = r"too few rows: test_fraction 0.1 of 4 rows is none; give a larger --test-fraction, .* by --test-file"
    with pytest.raises(DataError, match=sentence):
        load(saved(tmp_path / "table.npy", spelled(4)), valid_fraction=0.5)
    sentence = "its 4 rows leave none to learn from; give smaller fractions, or tables of the others by --valid-file"
    with pytest.raises(DataError, match=sentence):
        load(saved(tmp_path / "table.npy", spelled(4)), valid_fraction=0.5, test_fraction=0.5)


@pytest.mark.parametrize("fractions", [{}, {"valid_fraction": 0.6, "test_fraction": 0.4}])
@pytest.mark.parametrize(("rows", "said"), [(1, "its 1 row leaves none"), (2, "its 2 rows leave none")])
def test_where_no_fraction_helps_none_is_proposed(tmp_path, rows, said, fractions):
    sentence = f"{said} to learn from; give tables of the others by --valid-file and --test-file$"
    with pytest.raises(DataError, match=sentence):
        load(saved(tmp_path / "table.npy", spelled(rows)), **fractions)


def test_one_row_is_enough_beside_other_tables(tmp_path):
    path = Path(saved(tmp_path / "table.npy", spelled(1)))
    assert len(load(str(path), valid_file=path, test_file=path).train) == 1
    with pytest.raises(
        DataError, match="its 1 row leaves none to learn from; give tables of the others by --test-file"
    ):
        load(str(path), valid_file=path)


def test_row_numbers_lead_back_to_the_table(tmp_path):
    splits = load(saved(tmp_path / "table.npy", spelled(50)))
    assert splits.of_one_table
    for part in ("train", "valid", "test"):
        assert splits.row_numbers(part).tolist() == numbers_of(splits, part)


def test_row_numbers_of_tables_of_their_own_count_from_0(tmp_path):
    path = tmp_path / "table.npz"
    np.savez(path, train=spelled(20), test=spelled(3, start=20))
    splits = load(str(path))
    assert not splits.of_one_table
    assert splits.row_numbers("train").tolist() == numbers_of(splits, "train")
    assert splits.row_numbers("valid").tolist() == numbers_of(splits, "valid")
    assert splits.row_numbers("test").tolist() == [0, 1, 2]


def test_all_rows_of_another_table(tmp_path):
    path = Path(saved(tmp_path / "other.csv", np.array([[0, 2], [1, 0], [2, 1]])))
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


def test_odd_values_are_remarked_upon_unless_the_classes_are_given(tmp_path):
    values = np.column_stack([np.arange(20), spelled(20)])
    path = saved(tmp_path / "table.csv", values)
    (note,) = load(path).notes
    assert note.startswith(f"values above 1 stand only in column 1 of {path} and give every column 20 classes: remove")
    assert load(path, classes=20).notes == ()
    assert load(saved(tmp_path / "plain.csv", spelled(20))).notes == ()


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, float("nan")])
def test_a_fraction_is_between_0_and_1(tmp_path, fraction):
    path = saved(tmp_path / "table.npy", spelled(20))
    with pytest.raises(UsageError, match="test-fraction is above 0 and below 1"):
        load(path, test_fraction=fraction)


def test_tabs_have_an_ending_of_their_own(tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text("a\tb\n" + "0\t1\n" * 20)
    splits = table_splits(path, TableOptions())
    assert splits.schema.column_names == ("a", "b")
    assert len(splits.train) == 16


def test_a_sparse_matrix_is_named(tmp_path):
    path = tmp_path / "sparse.npz"
    np.savez(path, data=np.ones(2), indices=np.arange(2), indptr=np.arange(3), shape=np.array([2, 2]), format=b"csr")
    with pytest.raises(DataError, match=r"holds a sparse matrix: save it as an array, by numpy\.savez"):
        table_splits(path, TableOptions())


def with_gaps(rows: int, *gaps: tuple[int, int]) -> np.ndarray:
    values = spelled(rows, columns=12).astype(float)
    for gap in gaps:
        values[gap] = np.nan
    return values


@pytest.mark.parametrize("suffix", ["npy", "csv"])
def test_missing_values_go_with_their_rows(tmp_path, suffix):
    values = with_gaps(100, (3, 0), (50, 11), (51, 2))
    path = tmp_path / f"table.{suffix}"
    if suffix == "npy":
        np.save(path, values)
    else:
        lines = [",".join("" if np.isnan(value) else str(int(value)) for value in row) for row in values]
        path.write_text("\n".join(lines) + "\n")
    splits = load(str(path))
    assert splits.schema.missing
    assert splits.summary.endswith("; 12 columns, binary; 3 values missing (0.2%)")
    for name, part in splits.parts.items():
        found = part.batch(torch.arange(len(part))).x.numpy()
        assert np.array_equal(found, values[splits.row_numbers(name)], equal_nan=True)


def test_a_part_without_gaps_has_none(tmp_path):
    np.save(tmp_path / "train.npy", with_gaps(20, (3, 0)))
    np.save(tmp_path / "test.npy", spelled(20, columns=12))
    splits = table_splits(tmp_path / "train.npy", TableOptions(test_file=tmp_path / "test.npy"))
    assert splits.test.missing is None
    assert splits.schema.missing
    assert splits.notes == ()
    np.save(tmp_path / "valid.npy", with_gaps(20, (3, 0)))
    options = TableOptions(valid_file=tmp_path / "valid.npy", test_file=tmp_path / "test.npy")
    splits = table_splits(tmp_path / "test.npy", options)
    assert not splits.schema.missing
    assert "values are missing in rows to validate or test with, but in none to learn from" in splits.notes[0]


def test_what_nothing_is_known_of_is_refused(tmp_path):
    for name, values, sentence in (
        ("row", with_gaps(20, (3, slice(None))), r"row 4 \(counted from 1\) has no value at all: leave it out"),
        ("column", with_gaps(20, (slice(None), 3)), r"column 4 \(counted from 1\) has no value in the rows to .* out$"),
        ("last", with_gaps(20, (slice(None), 11)), r"column 12 \(counted from 1\) has no value in the rows to .* out$"),
    ):
        np.save(tmp_path / f"{name}.npy", values)
        with pytest.raises(DataError, match=sentence):
            load(str(tmp_path / f"{name}.npy"))
    (tmp_path / "last.csv").write_text("0,1,\n1,0,\n" * 10)
    with pytest.raises(DataError, match=r"column 3 .*: leave it out, or the delimiter at the end of each line"):
        load(str(tmp_path / "last.csv"))


def test_a_column_without_a_value_to_learn_from_is_refused(tmp_path):
    tested = table_splits(Path(saved(tmp_path / "t.npy", spelled(100, columns=12))), TableOptions()).row_numbers("test")
    values = with_gaps(100, (slice(None), 3))
    values[tested, 3] = 1
    np.save(tmp_path / "t.npy", values)
    with pytest.raises(DataError, match=r"column 4 \(counted from 1\) has no value in the rows to learn from"):
        load(str(tmp_path / "t.npy"))


def test_no_value_of_a_context_is_missing(tmp_path):
    half = Schema.of(12).conditioned(6)
    np.save(tmp_path / "new.npy", with_gaps(100, (37, 2)))
    sentence = r"new\.npy: row 38, column 3 \(counted from 1\) is missing, but the first 6 columns are the context"
    with pytest.raises(DataError, match=sentence):
        read_table(tmp_path / "new.npy", half)
    with pytest.raises(DataError, match=sentence):
        load(str(tmp_path / "new.npy")).split_context(6)
    np.save(tmp_path / "full.npy", spelled(100, columns=12))
    apart = table_splits(tmp_path / "full.npy", TableOptions(test_file=tmp_path / "new.npy"))
    with pytest.raises(DataError, match=r"the test table of full\.npy: row 38, column 3"):
        apart.split_context(6)
    np.save(tmp_path / "other.npy", with_gaps(20, (3, 6)))
    assert read_table(tmp_path / "other.npy", half).batch(torch.tensor([3])).x[0, 0].isnan()
