"""The names of the datasets, how little it costs to know them, and options that do not belong together."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

import jsa.data
from helpers.own_tables import write
from jsa.data import Splits, describe, load, names
from jsa.data.loading import BUILDERS
from jsa.errors import DataError, JsaError, UsageError


def test_every_name_can_be_built_and_is_described_in_a_line() -> None:
    assert set(names()) == set(BUILDERS)
    assert len(names()) == len(set(names())) == 5
    assert all(describe(name) and "\n" not in describe(name) for name in names())


def test_the_catalog_the_schema_and_the_download_load_neither_torch_nor_numpy() -> None:
    program = """
        import sys
        import jsa.data
        jsa.data.names()
        jsa.data.fetch
        jsa.data.Schema.of(3)
        print([name for name in ("torch", "numpy", "jaxtyping") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_arrives() -> None:
    assert dir(jsa.data) == sorted(jsa.data.__all__)
    assert all(getattr(jsa.data, name) is not None for name in jsa.data.__all__)
    with pytest.raises(AttributeError, match=r"No jsa\.data attribute lod"):
        jsa.data.lod  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("call", [load, describe])
def test_an_unknown_name_is_answered_with_the_nearest(call: Callable[[str], object]) -> None:
    with pytest.raises(UsageError, match="there is no dataset 'mnist-statik': did you mean 'mnist-static'"):
        call("mnist-statik")


MNIST = partial(load, "mnist-static")
OWN = "{} is for your own tables: mnist-static comes with"


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (partial(load, "./t.xlsx"), UsageError, r"t.xlsx is not a table: its name must end in .npy, .npz, .csv"),
        (partial(load, "."), UsageError, "must end in"),
        (partial(load, "table.csv", valid_file=Path("table.txt")), UsageError, r"table.txt is not a table"),
        (partial(load, "t.npz"), DataError, r"there is no table t.npz: check the path, or give .* by --data-dir"),
        (partial(load, "a/t.csv", data_dir=Path("d")), DataError, r"no table a/t.csv or d/t.csv: check the path"),
        (partial(MNIST, valid_file=Path("valid.npy")), UsageError, OWN.format("valid_file")),
        (partial(MNIST, test_file=Path("test.npy")), UsageError, OWN.format("test_file")),
        (partial(MNIST, valid_fraction=0.2), UsageError, OWN.format("valid_fraction")),
        (partial(MNIST, test_fraction=0.2), UsageError, OWN.format("test_fraction")),
        (partial(MNIST, split_seed=1), UsageError, OWN.format("split_seed")),
        (partial(MNIST, classes=3), UsageError, "mnist-static is binary, but classes is 3"),
    ],
)
def test_what_is_no_dataset_is_refused(
    here: Path, call: Callable[[], Splits], error: type[JsaError], sentence: str
) -> None:
    write(Path("table.csv"), "0,1\n" * 10)
    with pytest.raises(error, match=sentence):
        call()


def test_a_named_dataset_may_be_said_to_be_binary() -> None:
    assert load("mnist-static", classes=2).schema.classes == 2


def test_a_table_is_found_by_its_file_name_in_the_data_folder(tmp_path: Path) -> None:
    for name, cell in (("table", "0"), ("valid", "1")):
        (tmp_path / f"{name}.csv").write_text(f"{cell},1\n" * 20)
    splits = load("elsewhere/table.csv", data_dir=tmp_path, valid_file=Path("valid.csv"))
    assert (len(splits.train), len(splits.valid)) == (18, 20)
    assert splits.valid.batch(torch.arange(20)).x.min() == 1


def test_a_table_at_its_path_is_taken_before_one_in_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "table.csv").write_text("0,1\n" * 20)
    (tmp_path / "folder" / "table.csv").write_text("0,1\n" * 30)
    splits = load(str(tmp_path / "table.csv"), data_dir=tmp_path / "folder")
    assert len(splits.train) == 16
