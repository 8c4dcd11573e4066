"""Tables of words: what is a word, which class it is, and in which tables."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.own_tables import save, write
from jsa.data import Dataset, load
from jsa.data.schema import Schema, observed_labels, written_columns
from jsa.data.tables.delimited import read_csv
from jsa.data.tables.table import read_table
from jsa.errors import DataError, UsageError
from jsa.io.json_records import from_record, to_record

ANSWERS = (("no", "yes"), ("blue", "green", "red"), ())
VALUES = (2, 3, 4)
SURVEY = "smokes,color,children\n" + "yes,red,0\nno,green,3\nno,,1\n,blue,2\n" * 5


def written(folder: Path, text: str, name: str = "table.csv") -> Path:
    return write(folder / name, text)


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    """What rows of the survey are made of."""
    return load(str(written(tmp_path, SURVEY))).schema


def values(rows: Dataset) -> list[list[int]]:
    """The classes of all rows; 0 for what is missing."""
    x = rows.batch(torch.arange(len(rows))).x.nan_to_num()
    found: list[list[int]] = x.unflatten(-1, (-1, rows.schema.classes)).argmax(-1).tolist()
    return found


@pytest.mark.parametrize(
    "text",
    [
        "a,b\nyes,red\nno,blue\n",
        "yes,red\nno,blue\nno,red\nyes,blue\n",
        "sep=;\nyes;red\nno;blue\nno;red\nyes;blue\n",
        'a\tb\n"yes"\tred\n no \t"blue"\n',
        "\ufeffa,b\r\nyes,red\r\nno,blue\r\n",
        "a,\nyes,red\nno,blue\n",
    ],
    ids=["header", "no header", "no header below sep", "tabs and quotes", "mark of the order of bytes", "nameless"],
)
def test_words_are_classes_in_the_order_of_the_alphabet(tmp_path: Path, text: str) -> None:
    table = read_csv(written(tmp_path, text))
    assert table.words == (("no", "yes"), ("blue", "red"))
    assert table.values.numbers[:2].tolist() == [[1, 1], [0, 0]]
    assert table.values.missing is None
    assert (table.names == ("a", "b")) == text.lstrip("\ufeff").startswith(("a,b", "a\tb"))


def test_numbers_words_and_gaps_stand_side_by_side(tmp_path: Path) -> None:
    table = read_csv(written(tmp_path, SURVEY))
    assert table.words == ANSWERS
    assert table.values.numbers[:4].tolist() == [[1, 2, 0], [0, 1, 3], [0, 0, 1], [0, 0, 2]]
    assert table.values.missing is not None
    assert np.argwhere(table.values.missing[:4]).tolist() == [[2, 1], [3, 0]]


def test_as_many_words_as_a_byte_has_values(tmp_path: Path) -> None:
    table = read_csv(written(tmp_path, "".join(f"row {row}\n" for row in range(256)) * 2))
    assert table.values.numbers.max() == 255
    assert len(table.values) == 512


def test_splits_share_their_words(tmp_path: Path) -> None:
    table, valid = written(tmp_path, SURVEY), written(tmp_path, "no,violet,1\n,blue,0\n", "valid.csv")
    splits = load(str(table), valid_file=valid)
    assert splits.schema.words == (ANSWERS[0], ("blue", "green", "red", "violet"), ())
    assert splits.schema.classes == 4
    assert splits.schema.column_classes == (2, 4, 4)
    assert "3 columns, 4 classes, words in 2 of them" in splits.summary
    assert values(splits.valid) == [[0, 3, 1], [0, 0, 0]]
    # The same rows in another order are the same classes.
    first, *others = SURVEY.splitlines(keepends=True)
    other = load(str(written(tmp_path, "".join([first, *reversed(others)]), "other.csv")), valid_file=valid)
    assert other.schema.words == splits.schema.words
    assert load(str(table)).schema.words == ANSWERS


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1,blue,0\n0,red,1\n", r"valid.csv: column 1 \(counted from 1\) holds numbers, but words in another table"),
        ("no,blue,zero\nno,blue,one\n" * 2, r"table.csv: column 3 \(.*\) holds numbers, but words in another table"),
    ],
)
def test_numbers_are_no_words(tmp_path: Path, text: str, sentence: str) -> None:
    table, valid = written(tmp_path, SURVEY), written(tmp_path, text, "valid.csv")
    with pytest.raises(DataError, match=sentence):
        load(str(table), valid_file=valid)


def test_another_table_has_the_classes_of_the_run(tmp_path: Path, schema: Schema) -> None:
    rows = read_table(written(tmp_path, "smokes,color,children\nyes,red,3\nyes,green,\n", "new.csv"), schema)
    assert values(rows) == [[1, 2, 3], [1, 1, 0]]
    # A first line of known words is no header.
    assert values(read_table(written(tmp_path, "no,blue,\n", "new.csv"), schema)) == [[0, 0, 0]]
    # An array holds classes as their numbers.
    assert values(read_table(save(tmp_path / "new.npy", np.array([[1, 2, 3]])), schema)) == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            "yes,red,3\nyes,pink,3\n",
            r"row 2, column 2 \(.*\) holds 'pink', which is not one of .* run: blue, green, red",
        ),
        ("yes,red,3\n1,red,3\nyes,red,3\n", "line 2, column 1 holds 1, but the others of its column are words"),
        ("yes,red,3\nyes,red,4\n", r"row 2, column 3 \(counted from 1\) holds 4, but 4 classes go up to 3"),
        # A first line of which words are known is a row.
        *(
            (f"maybe,red,\n{more}", r"row 1, column 1 \(.*\) holds 'maybe', which is not one")
            for more in ("no,,1\n", "")
        ),
        ("1,red,3\n0,blue,2\n", r"column 1 \(counted from 1\) holds numbers, but words in the data of the run"),
    ],
)
def test_another_table_with_other_words_is_refused(tmp_path: Path, schema: Schema, lines: str, sentence: str) -> None:
    nameless = replace(schema, column_names=None)
    with pytest.raises(DataError, match=sentence):
        read_table(written(tmp_path, lines, "new.csv"), nameless)


def test_numbers_and_words_are_not_taken_for_each_other(tmp_path: Path, schema: Schema) -> None:
    with pytest.raises(DataError, match=r"column 2 \(counted from 1\) holds words, but numbers in the data of the run"):
        read_table(written(tmp_path, "1,red\n0,blue\n", "new.csv"), Schema.of(2))
    with pytest.raises(DataError, match=r"column 1 \(counted from 1\) holds 2, but 2 classes go up to 1"):
        read_table(save(tmp_path / "new.npy", np.array([[2, 2, 3]])), schema)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    shape = Schema(3, 0, 4, None, ("smokes", "color", "children"), words=ANSWERS, values=VALUES)
    numbers = np.array([[1, 2, 3], [0, 0, 0]], dtype=np.uint8)
    columns = written_columns(shape, numbers)
    text = "\n".join(",".join(map(str, line)) for line in [columns, *zip(*columns.values(), strict=True)])
    assert values(read_table(written(tmp_path, text), shape)) == numbers.tolist()
    labels = observed_labels(shape)
    assert labels[:4] == [None, "smokes = yes", None, None]
    assert labels[4:] == [
        *("color = blue", "color = green", "color = red", None),
        *("children = 0", "children = 1", "children = 2", "children = 3"),
    ]
    assert from_record(Schema, to_record(shape)) == shape


WORDS_PER_COLUMN = "words must have one entry per column, either empty or with a word for each value"
NO_VALUES = ((2, 3), (2, 3, 5), (0, 3, 4))


@pytest.mark.parametrize(
    ("words", "values", "sentence"),
    [
        *((words, values, WORDS_PER_COLUMN) for words, values in ((ANSWERS[:2], VALUES), (ANSWERS, None))),
        *((None, wrong, f"must be 3 numbers from 1 to 4, not {re.escape(str(wrong))}") for wrong in NO_VALUES),
    ],
)
def test_words_of_no_row_are_refused(
    words: tuple[tuple[str, ...], ...] | None, values: tuple[int, ...] | None, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        Schema(3, 0, 4, None, words=words, values=values)


def notes(folder: Path, text: str, fraction: float = 0.1) -> tuple[str, ...]:
    """What is said about a table, which is called ``table.csv`` in it."""
    path = written(folder, text)
    splits = load(str(path), valid_fraction=fraction, test_fraction=fraction)
    return tuple(note.replace(str(path), "table.csv") for note in splits.notes)


MIXED = "".join(f"{'mf'[row % 2]},{row % 2},{row // 2 % 2}\n" for row in range(30))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "a,b\n" + "Yes,no\nno,yes\nyes,no\n" * 10,
            "column 1 has the words 'Yes' and 'yes': write them alike if they mean the same",
        ),
        (
            "a,b\n" + "".join(f"name {row},{row % 2}\n" for row in range(30)),
            "column 1 of table.csv has up to 30 words, and every column takes the work of 30 classes: join rare words, "
            "or remove what names the rows",
        ),
        (
            "a,b,c\n" + "".join(f"{row},yes,{row % 2}\n{row},no,1\n" for row in range(30)),
            "values above 1 occur only in column 1 of table.csv and give every column of numbers 30 classes: remove "
            "columns that are not variables, such as row numbers, or check the table with --data-classes 2",
        ),
        (
            "sex,2,3\n" + MIXED,
            "values above 1 occur only in the first row of table.csv and give every column of numbers 4 classes: "
            "remove that row if it is a header, or check the table with --data-classes 2",
        ),
        (
            "sex,0,1\n" + MIXED,
            "words of the first line of table.csv, such as 'sex', occur nowhere else in their columns: if it is a "
            "header, leave no numbers in it, for a line with numbers is a row",
        ),
        (
            "sex,answer,answers\n" + MIXED.replace("0", "2"),
            "no value of table.csv is 0, and classes are counted from 0: subtract 1 from every value, for 2 classes "
            "instead of 3",
        ),
        (
            "violet,red\n" + "rose,red\ntulip,green\ntulip,red\n" * 5,
            "the first line of table.csv is taken for a row, not for a header, for 'red' occurs again in its column",
        ),
        (
            ("smokes,sex\n" + "yes,m\nno,f\nno,m\n" * 10) * 2,
            "the first line of table.csv is repeated, and its words occur in no other line: remove repeated headers",
        ),
        (
            "drinks,smokes\n" + "None,no\nmuch,yes\nlittle,no\n" * 5,
            "'None' in column 1 of table.csv is taken for a missing value: write another word if it is an answer",
        ),
        (
            "drinks,smokes\n" + "-,no\n+,yes\n++,no\n" * 5,
            "'-' in column 1 of table.csv is taken for a missing value: write another word if it is an answer",
        ),
    ],
)
def test_what_looks_wrong_is_said(tmp_path: Path, text: str, sentence: str) -> None:
    assert sentence in notes(tmp_path, text)


@pytest.mark.parametrize(
    "text", [SURVEY, "yes,no\n" * 5 + "no,yes\nno,no\n", "a,b\n" + "none,1\n0,1\n" * 5, "a,b\nx,1\ny,0\nz,1\nz,0\n" * 1]
)
def test_what_looks_right_is_not(tmp_path: Path, text: str) -> None:
    assert notes(tmp_path, text, fraction=0.3) == ()


def test_a_header_of_known_names_is_one_though_its_words_are_known(tmp_path: Path) -> None:
    shape = Schema(2, 0, 2, None, ("other", "sex"), words=(("none of these", "other"), ("f", "m")))
    for rows in ("other,f\n", "other,f\nnone of these,m\n"):
        found = read_csv(written(tmp_path, f"other,sex\n{rows}"), shape.words or (), shape.column_names)
        assert found.names == shape.column_names
        assert len(found.values) == rows.count("\n")
        assert found.remarks == ()
    # Without names that are known, it is a row, and said to be.
    found = read_csv(written(tmp_path, "other,sex\nother,f\nother,m\nnone of these,m\n"))
    assert (found.names, len(found.values)) == (None, 4)
    assert "is taken for a row, not for a header, for 'other' occurs again" in found.remarks[0]


def test_words_beside_arrays_are_refused(tmp_path: Path) -> None:
    numbers = save(tmp_path / "numbers.npy", np.array([[0, 1], [1, 0], [2, 1]] * 10))
    words = written(tmp_path, "a,b\nno,x\nyes,y\nnever,x\n")
    for one, other in ((numbers, words), (words, numbers)):
        with pytest.raises(DataError, match=r"numbers.npy: column 1 \(counted from 1\) holds numbers, but words"):
            load(str(one), valid_file=other, test_fraction=0.3)


def test_numbers_have_their_own_classes(tmp_path: Path) -> None:
    colors = [f"color {number}" for number in range(12)]
    text = "color,smokes\n" + "".join(f"{colors[row % 12]},{row % 2}\n" for row in range(60))
    splits = load(str(written(tmp_path, text)))
    assert (splits.schema.classes, splits.schema.column_classes) == (12, (12, 2))
    # What is given is about numbers: a column of words has as many as words.
    assert load(str(tmp_path / "table.csv"), classes=3).schema.column_classes == (12, 3)
    with pytest.raises(UsageError, match="classes is 1: a variable takes between 2 and 256 values"):
        load(str(tmp_path / "table.csv"), classes=1)


def test_more_words_together_than_a_byte_has_values(tmp_path: Path) -> None:
    table = written(tmp_path, "".join(f"row {row},1\n" for row in range(256)) * 2)
    other = written(tmp_path, "row new,1\nrow new,0\n", "valid.csv")
    with pytest.raises(DataError, match=r"table.csv and .*valid.csv: column 1 .* has more than 256 different words"):
        load(str(table), valid_file=other)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("table.csv", "Doe, Jane;yes\nRoe, Rich;no\nDoe, Jane;no\n"),
        ("table.tsv", "New York, NY, USA\tyes\nBoston, MA, USA\tno\nNew York, NY, USA\tno\n"),
        ("table.csv", "caf\u00e9,yes\ncafe\u0301,no\ncaf\u00e9,no\nbar,yes\n"),
    ],
)
def test_words_of_all_kinds(tmp_path: Path, name: str, text: str) -> None:
    table = read_csv(written(tmp_path, text, name))
    assert [len(known) for known in table.words] == [2, 2]
    assert len(table.values) == text.count("\n")


def test_a_number_behind_a_space_that_does_not_break_is_a_number(tmp_path: Path) -> None:
    table = read_csv(written(tmp_path, "\u00a00,x\n\u00a01,y\n\u00a01,x\n"))
    assert table.words == ((), ("x", "y"))
    assert table.values.numbers[:, 0].tolist() == [0, 1, 1]
