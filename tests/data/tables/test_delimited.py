"""Tables of text, and what is said about a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.own_tables import write
from jsa.data.tables.delimited import TextTable, read_csv
from jsa.errors import DataError


def read(folder: Path, text: str | bytes) -> TextTable:
    return read_csv(write(folder / "table.csv", text))


@pytest.mark.parametrize(
    "text",
    [
        *("0,1,2\n3,0,255\n", "0;1;2\n3;0;255\n", "0\t1\t2\n3\t0\t255\n", "a,b,c\n0,1,2\n3,0,255\n"),
        *("first;second;third\n0;1;2\n3;0;255", ",b,c\n0,1,2\n3,0,255\n", "0,1,2\r\n3,0,255\r\n"),
        *("\n0,1,2\n\n3,0,255\n\n", "\n\nname,of,column\n\n0,1,2\n3,0,255\n", '"0","1","2"\n"3","0","255"\n'),
        *('"a, b","c","d"\n0,1,2\n3,0,255\n', "0.0, 1.0, 2\n 3 ,0e0,+255\n", "\ufeff0,1,2\n3,0,255\n"),
        *("\ufeffa,b,c\n0,1,2\n3,0,255\n", '"a, x";"b, y";c\n0;1;2\n3;0;255\n', "a, x;b, y;c\n0;1;2\n3;0;255\n"),
        *("sep=;\na,x;b,y;c\n0;1;2\n3;0;255\n", "sep=\t\r\n0\t1\t2\r\n3\t0\t255\r\n", "NA,b,c\n0,1,2\n3,0,255\n"),
    ],
)
def test_tables_of_many_shapes_of_text(tmp_path: Path, text: str) -> None:
    table = read(tmp_path, text).values
    assert table.numbers.tolist() == [[0, 1, 2], [3, 0, 255]]
    assert str(table.numbers.dtype) == "uint8"
    assert table.missing is None


@pytest.mark.parametrize(
    "text",
    [
        *("0,,2\n,0,255\n", "0;;2\nNA;0;255\n", "a,b,c\n0,NA,2\nn/a,0,255\n", "0,nan,2\nNaN,0,255\n"),
        *("0,-nan,2\n+NaN,0,255\n", "0,-nan,2\n,0,255\n", '"0","","2"\n"?","0","255"\n', "0, - ,2\n.,0.0,255\n"),
        *("0,None,2\nNULL,0,255", "\ufeffa,b,c\r\n0,,2\r\n\r\n,0,255\r\n", "0\t\t2\n\t0\t255\n"),
    ],
)
def test_what_is_missing_is_found_however_it_is_written(tmp_path: Path, text: str) -> None:
    table = read(tmp_path, text).values
    assert table.numbers.tolist() == [[0, 0, 2], [0, 0, 255]]
    assert table.missing is not None
    assert table.missing.tolist() == [[False, True, False], [True, False, False]]


def test_a_single_column_and_a_single_row(tmp_path: Path) -> None:
    # Blank lines at both ends of one column are nothing.
    for text in ("0\n1\n1\n", "\n\n0\n1\n1\n\n\n"):
        assert read(tmp_path, text).values.numbers.tolist() == [[0], [1], [1]]
    assert read(tmp_path, "0,1,1").values.numbers.tolist() == [[0, 1, 1]]


def numbered(rows: int, line: str) -> str:
    """As many lines, with their numbers in them."""
    return "".join(line.format(row) + "\n" for row in range(rows))


MORE_THAN_A_BYTE = r"column 2 \(counted from 1\) has more than 256 different words"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0,1\n1,x\n", "line 2, column 2 holds 'x', which is not a number"),
        ("a,b\n0,1\n\n1,x\n", "line 4, column 2 holds 'x', which is not a number"),
        ("0,y\n1,1\n", "line 1, column 2 holds 'y', which is not a number"),
        ("0,y\n1,1\n", "2 and so on, or its whole column as words; a first line is taken for a header where none"),
        ("2019,2020\n1,1\n", "line 1, column 1 holds 2019, but .* a first line is taken for a header where none"),
        ("0,1\nyes,1\n", "line 2, column 1 holds 'yes', which is not a number: write values as 0, 1, 2 and so on"),
        ("i,a\n" + numbered(300, "{},1"), "line 258, .* 256, but .*; leave out a column of row num"),
        ("a\n0\n\n1\n", "line 3 is blank, which in a table of one column is a row without any value: fill it in"),
        ('0,1\n"1,1\n0,1\n', r"line 3, column 1 holds '1,1\\n0,1\\n', which is neither a number nor a word"),
        ("sep=;\n", "holds no rows"),
        ("0,1\n1,1_0\n", "line 2, column 2 holds '1_0', which is not a number"),
        ("0,1\n-1,1\n", "line 2, column 1 holds -1, but a table holds whole numbers from 0 to 255"),
        ("a,b\n0,1\n1,0.5\n", "line 3, column 2 holds 0.5, but a table holds whole numbers"),
        ("0,1\n1,256\n", "line 2, column 2 holds 256, but a table holds whole numbers"),
        (",\n0,1\n", r"row 1 \(counted from 1\) has no value at all: leave it out"),
        ("NA,n/a\n0,1\n", r"row 1 \(counted from 1\) has no value at all"),
        ("0,1\n,1\n,\n", r"row 3 \(counted from 1\) has no value at all"),
        ("0,1\n,1\n1,x\n", "line 3, column 2 holds 'x', which is not a number"),
        ("0,1\n,1\n1,-1\n", "line 3, column 2 holds -1, but a table holds whole numbers from 0 to 255"),
        ("0,1\n,1\n1\n", "line 3 has 1 cells, but the first row has 2"),
        ("0,1\n1,inf\n", "line 2, column 2 holds inf, but a table holds whole numbers"),
        ("0,1\n1\n", "line 2 has 1 cells, but the first row has 2"),
        ("0,1\n1,1,1\n", "line 2 has 3 cells, but the first row has 2"),
        ("", "is empty: a table has at least one row"),
        ("\n\n", "is empty: a table has at least one row"),
        ("a,b\n", "holds no rows below its header"),
        (b"0,1\n\xff\xfe,1\n", "is not text in UTF-8, .*: save it in that encoding"),
        (b"\x93NUMPY\x01\0", "is not text in UTF-8"),
        ("0,1\n\0,1\n", "table.csv"),
        ("0,1\n" + "7" * 200_000 + ",1\n", "table.csv"),
        ("0,1\n\u0661,1\n", "line 2, column 1 holds '\u0661', which is not a number"),
        # Columns of words.
        ("a,b\n0,yes\n1,no\nO,yes\n", "line 4, column 1 holds 'O', which is not a number: write values as 0, 1, 2"),
        ("a,b\n0,yes\n1,no\n1,3\n", "line 4, column 2 holds 3, but the others of its column are words"),
        ("a,b\n0,yes\n,2\n1,no\n", "line 3, column 2 holds 2, but the others of its column are words"),
        ("a;b\n1,5;yes\n2,5;no\n", "line 2, column 1 holds 1,5, but a table holds whole numbers"),
        ("a,b\nyes,red\nno\n", "line 3 has 1 cells, but the first row has 2"),
        (
            'a,b\nyes,"red\nno,blue\n',
            r"line 3, column 2 holds 'red\\nno,blue\\n', which is neither a number nor a word",
        ),
        ("a,b\nyes,\x1b[31mred\n", r"column 2 holds '\\x1b\[31mred', which is neither a number nor a word"),
        ("a,b\nyes," + "red" * 100 + "\n", "line 2, column 2 holds 'redred.*' *, which is neither a number nor a word"),
        ("a,b\n" + numbered(257, "yes,row {}"), f"{MORE_THAN_A_BYTE}, .*: leave out a column of names"),
        ("a,b\n" + numbered(5000, "yes,row {}") + "no,row,row\n", MORE_THAN_A_BYTE),
    ],
)
def test_a_wrong_table_is_one_sentence_with_its_place(tmp_path: Path, text: str | bytes, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        read(tmp_path, text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere.csv cannot be read: No such file"):
        read_csv(tmp_path / "nowhere.csv")


@pytest.mark.parametrize(
    ("text", "names", "remark"),
    [
        ("a,b\n0,1\n", ("a", "b"), None),
        ('\n"a, b" ,c\n0,1\n', ("a, b", "c"), None),
        ("a\x1b[31m,b\n0,1\n", ("a[31m", "b"), None),
        ("0,1\n1,1\n", None, None),
        ("a,a\n0,1\n", None, "has the name 'a' twice"),
        ("a,\n0,1\n", None, "has no name for column 2"),
        ("a,b,c\n0,1\n", None, "has 3 names for 2 columns"),
        ('"a,b\n0,1\n', None, "has 1 names for 2 columns"),
    ],
    ids=["plain", "quoted", "escape", "no-header", "twice", "blank", "too-many", "open-quote"],
)
def test_the_names_of_a_header(tmp_path: Path, text: str, names: tuple[str, ...] | None, remark: str | None) -> None:
    table = read(tmp_path, text)
    assert table.values.columns == 2
    assert table.names == names
    sentence = f"the header of {tmp_path / 'table.csv'} {remark}, so that columns go by their numbers"
    assert table.remarks == (() if remark is None else (sentence,))
