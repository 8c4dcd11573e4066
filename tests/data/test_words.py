"""Tables of words: what is a word, which class it is, and in which tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from jsa.data import IndexedDataset, load
from jsa.data.delimited import read_csv
from jsa.data.labels import observed_labels, written_columns
from jsa.data.shape import RowShape
from jsa.data.table import read_table
from jsa.errors import DataError, UsageError
from jsa.records import from_record, to_record

ANSWERS = (("no", "yes"), ("blue", "green", "red"), ())
SURVEY = "smokes,colour,children\n" + "yes,red,0\nno,green,3\nno,,1\n,blue,2\n" * 5


def written(folder: Path, text: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def values(rows: IndexedDataset) -> list[list[int]]:
    """The classes of all rows; 0 for what is missing."""
    x = rows.batch(torch.arange(len(rows))).x.nan_to_num()
    return x.unflatten(-1, (-1, rows.classes)).argmax(-1).tolist()


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
    assert (table.header.names == ("a", "b")) == text.lstrip("\ufeff").startswith(("a,b", "a\tb"))


def test_numbers_words_and_gaps_stand_side_by_side(tmp_path: Path) -> None:
    table = read_csv(written(tmp_path, SURVEY))
    assert table.words == ANSWERS
    assert table.values.numbers[:4].tolist() == [[1, 2, 0], [0, 1, 3], [0, 0, 1], [0, 0, 2]]
    assert table.values.missing is not None
    assert np.argwhere(table.values.missing[:4]).tolist() == [[2, 1], [3, 0]]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n0,yes\n1,no\nO,yes\n", "line 4, column 1 holds 'O', which is no number: write values as 0, 1, 2"),
        ("a,b\n0,yes\n1,no\n1,3\n", "line 4, column 2 holds 3, but the others of its column are words"),
        ("a,b\n0,yes\n,2\n1,no\n", "line 3, column 2 holds 2, but the others of its column are words"),
        ("a;b\n1,5;yes\n2,5;no\n", "line 2, column 1 holds 1,5, but a table holds whole numbers"),
        ("a,b\nyes,red\nno\n", "line 3 has 1 cells, but the first row has 2"),
        ('a,b\nyes,"red\nno,blue\n', r"line 3, column 2 holds 'red\\nno,blue\\n', which is no number and no word"),
        ("a,b\nyes,\x1b[31mred\n", r"column 2 holds '\\x1b\[31mred', which is no number and no word"),
        ("a,b\nyes," + "red" * 100 + "\n", "line 2, column 2 holds 'redred.*' *, which is no number and no word"),
        (
            "a,b\n" + "".join(f"yes,row {row}\n" for row in range(257)),
            r"column 2 \(counted from 1\) has more than 256 different words, .*: leave out a column of names",
        ),
        (
            "a,b\n" + "".join(f"yes,row {row}\n" for row in range(5000)) + "no,row,row\n",
            r"column 2 \(counted from 1\) has more than 256 different words",
        ),
    ],
)
def test_what_is_no_table_of_words_is_one_sentence_with_its_place(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        read_csv(written(tmp_path, text))


def test_as_many_words_as_a_byte_has_values(tmp_path: Path) -> None:
    table = read_csv(written(tmp_path, "".join(f"row {row}\n" for row in range(256)) * 2))
    assert table.values.numbers.max() == 255
    assert len(table.values) == 512


def test_splits_share_their_words(tmp_path: Path) -> None:
    table, valid = written(tmp_path, SURVEY), written(tmp_path, "no,violet,1\n,blue,0\n", "valid.csv")
    splits = load(str(table), valid_file=valid)
    assert splits.words == (ANSWERS[0], ("blue", "green", "red", "violet"), ())
    assert splits.classes == 4
    assert splits.row_shape.column_classes == (2, 4, 4)
    assert "3 columns, 4 classes, words in 2 of them" in splits.summary
    assert values(splits.valid) == [[0, 3, 1], [0, 0, 0]]
    # The same rows in another order are the same classes.
    first, *others = SURVEY.splitlines(keepends=True)
    other = load(str(written(tmp_path, "".join([first, *reversed(others)]), "other.csv")), valid_file=valid)
    assert other.words == splits.words
    assert load(str(table)).words == ANSWERS


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1,blue,0\n0,red,1\n", r"valid.csv: column 1 \(counted from 1\) holds numbers, but words in another table"),
        (
            "no,blue,zero\nno,blue,one\nno,blue,zero\n",
            r"table.csv: column 3 \(counted from 1\) holds numbers, but words in another table",
        ),
    ],
)
def test_numbers_are_no_words(tmp_path: Path, text: str, sentence: str) -> None:
    table, valid = written(tmp_path, SURVEY), written(tmp_path, text, "valid.csv")
    with pytest.raises(DataError, match=sentence):
        load(str(table), valid_file=valid)


def test_another_table_has_the_classes_of_the_run(tmp_path: Path) -> None:
    shape = load(str(written(tmp_path, SURVEY))).row_shape
    rows = read_table(written(tmp_path, "smokes,colour,children\nyes,red,3\nyes,green,\n", "new.csv"), shape)
    assert values(rows) == [[1, 2, 3], [1, 1, 0]]
    # A first line of known words is no header.
    assert values(read_table(written(tmp_path, "no,blue,\n", "new.csv"), shape)) == [[0, 0, 0]]
    # An array holds classes as their numbers.
    np.save(tmp_path / "new.npy", np.array([[1, 2, 3]]))
    assert values(read_table(tmp_path / "new.npy", shape)) == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        ("yes,pink,3", r"row 2, column 2 \(counted from 1\) holds 'pink', which is none of .* run: blue, green, red"),
        ("1,red,3", "line 3, column 1 holds 1, but the others of its column are words"),
        ("yes,red,4", r"row 2, column 3 \(counted from 1\) holds 4, but 4 classes go up to 3"),
    ],
)
def test_another_table_with_other_words_is_refused(tmp_path: Path, cells: str, sentence: str) -> None:
    shape = load(str(written(tmp_path, SURVEY))).row_shape
    with pytest.raises(DataError, match=sentence):
        read_table(written(tmp_path, f"smokes,colour,children\nyes,red,3\n{cells}\nyes,red,3\n", "new.csv"), shape)


def test_numbers_and_words_are_not_taken_for_each_other(tmp_path: Path) -> None:
    shape = load(str(written(tmp_path, SURVEY))).row_shape
    with pytest.raises(DataError, match=r"column 1 \(counted from 1\) holds numbers, but words in the data of the run"):
        read_table(written(tmp_path, "1,red,3\n0,blue,2\n", "new.csv"), shape)
    with pytest.raises(DataError, match=r"column 2 \(counted from 1\) holds words, but numbers in the data of the run"):
        read_table(written(tmp_path, "1,red\n0,blue\n", "new.csv"), RowShape(2, 0, 2, None))
    np.save(tmp_path / "new.npy", np.array([[2, 2, 3]]))
    with pytest.raises(DataError, match=r"column 1 \(counted from 1\) holds 2, but 2 classes go up to 1"):
        read_table(tmp_path / "new.npy", shape)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    shape = RowShape(3, 0, 4, None, ("smokes", "colour", "children"), words=ANSWERS)
    numbers = np.array([[1, 2, 3], [0, 0, 0]], dtype=np.uint8)
    columns = written_columns(shape, numbers)
    text = "\n".join(",".join(map(str, line)) for line in [columns, *zip(*columns.values(), strict=True)])
    assert values(read_table(written(tmp_path, text), shape)) == numbers.tolist()
    labels = observed_labels(shape)
    assert labels[:4] == [None, "smokes = yes", None, None]
    assert labels[4:] == [
        *("colour = blue", "colour = green", "colour = red", None),
        *("children = 0", "children = 1", "children = 2", "children = 3"),
    ]
    assert from_record(RowShape, to_record(shape)) == shape


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (ANSWERS[:2], "a row of 3 columns cannot have the words of 2"),
        ((("a", "b", "c", "d", "e"), (), ()), "5 words cannot stand for 4 classes"),
    ],
)
def test_words_of_no_row_are_refused(words: tuple[tuple[str, ...], ...], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        RowShape(3, 0, 4, None, words=words)


def test_what_looks_wrong_is_said(tmp_path: Path) -> None:
    twice = load(str(written(tmp_path, "a,b\n" + "Yes,no\nno,yes\nyes,no\n" * 10)))
    assert twice.notes == ("column 1 has the words 'Yes' and 'yes': write them alike if they mean the same",)
    names = load(str(written(tmp_path, "a,b\n" + "".join(f"name {row},{row % 2}\n" for row in range(30)))))
    (note,) = names.notes
    assert note.startswith("few words come twice in column 1 of ")
    assert note.endswith(", which gives every column 30 classes: remove what names the rows")
    assert load(str(written(tmp_path, SURVEY))).notes == ()
    (numbered,) = load(
        str(written(tmp_path, "a,b,c\n" + "".join(f"{row},yes,{row % 2}\n{row},no,1\n" for row in range(30))))
    ).notes
    assert "values above 1 stand only in column 1" in numbered
