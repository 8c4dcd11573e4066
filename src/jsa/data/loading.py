"""Loading of any dataset by its name or the path of a table."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from jsa.data.catalog import names
from jsa.data.fashion_mnist import fashion_mnist
from jsa.data.mnist import mnist_dynamic, mnist_static, mnist_threshold
from jsa.data.salakhutdinov import mnist_salakhutdinov
from jsa.data.splits import Splits
from jsa.data.tables.table import SUFFIXES, TableOptions, table_splits
from jsa.errors import DataError, UsageError, unknown_name
from jsa.io.home_folder import expanded

BUILDERS: dict[str, Callable[[Path | None, int], Splits]] = {
    "mnist-threshold": lambda data_dir, seed: mnist_threshold(),
    "mnist-static": lambda data_dir, seed: mnist_static(),
    "mnist-dynamic": lambda data_dir, seed: mnist_dynamic(seed),
    "mnist-salakhutdinov": lambda data_dir, seed: mnist_salakhutdinov(data_dir),
    "fashion-mnist": lambda data_dir, seed: fashion_mnist(data_dir),
}
"""The function that makes each named dataset, given the data folder and the seed of the draws."""


def load(
    name_or_path: str,
    *,
    data_dir: Path | None = None,
    valid_file: Path | None = None,
    test_file: Path | None = None,
    valid_fraction: float = 0.1,
    test_fraction: float = 0.1,
    split_seed: int = 0,
    classes: int | None = None,
    seed: int = 0,
) -> Splits:
    """Load the training, validation and test rows of a dataset.

    Args:
        name_or_path: A name of the catalog, or the path of a .npy, .npz, .csv or .tsv table.
        data_dir: The folder of data files that are not part of the package; the environment variable JSA_DATA_DIR names
            another one. A table that is not at its path is searched for there by its file name.
        valid_file: For a table: the validation rows, as another table.
        test_file: For a table: the test rows, as another table.
        valid_fraction: For a table without validation rows: the share of its rows to use for validation.
        test_fraction: For a table without test rows: the share of its rows to use for the test.
        split_seed: For a table: the seed of the choice of these rows.
        classes: For a table: the number of values of a variable; None to determine it from the table.
        seed: The seed of the draws of `mnist-dynamic`.

    Example:
        >>> digits = load("mnist-threshold")
        >>> len(digits.train), len(digits.valid), len(digits.test)
        (55000, 5000, 10000)
    """
    options = TableOptions(valid_file, test_file, valid_fraction, test_fraction, split_seed, classes)
    if name_or_path in BUILDERS:
        _refuse_table_options(name_or_path, options)
        return BUILDERS[name_or_path](data_dir, seed)
    path = expanded(name_or_path)
    if is_table(name_or_path):
        valid_file, test_file = (None if file is None else _found(file, data_dir) for file in (valid_file, test_file))
        return table_splits(_found(path, data_dir), replace(options, valid_file=valid_file, test_file=test_file))
    if path.exists() or os.sep in name_or_path:
        raise UsageError(f"{path} is not a table: its name must end in {', '.join(SUFFIXES)}")
    raise unknown_name("dataset", name_or_path, names())


def is_table(name_or_path: str) -> bool:
    """Return whether this is the path of a table rather than the name of a dataset.

    >>> is_table("mine.csv"), is_table("mnist-static")
    (True, False)
    """
    return name_or_path not in BUILDERS and Path(name_or_path).suffix.lower() in SUFFIXES


def exists(path: Path) -> bool:
    """Return whether a file or folder exists; in a folder without read permission, none does."""
    with suppress(OSError):
        return path.exists()
    return False


def _found(path: Path, data_dir: Path | None) -> Path:
    """Find a table at its path, else by its file name in the data folder."""
    places = [expanded(path)]
    if data_dir is not None:
        places.append(expanded(data_dir) / path.name)
    for place in places:
        # What is not a table is refused when it is read.
        if exists(place) or place.suffix.lower() not in SUFFIXES:
            return place
    raise DataError(
        f"there is no table {' or '.join(map(str, places))}: check the path, or give the folder that has it by "
        "--data-dir"
    )


def _refuse_table_options(name: str, options: TableOptions) -> None:
    """Refuse options of tables for a named dataset, which has its own splits and would ignore them."""
    plain = TableOptions()
    for option in ("valid_file", "test_file", "valid_fraction", "test_fraction", "split_seed"):
        if getattr(options, option) != getattr(plain, option):
            raise UsageError(f"{option} is for your own tables: {name} comes with its splits")
    if options.classes not in (None, 2):
        raise UsageError(f"{name} is binary, but classes is {options.classes}: leave out --data-classes")
