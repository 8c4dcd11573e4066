"""One way to any dataset: its name, or the path of a table."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from jsa.data.catalogue import names
from jsa.data.fashion import fashion_mnist
from jsa.data.mnist import mnist_dynamic, mnist_static, mnist_threshold
from jsa.data.salakhutdinov import mnist_salakhutdinov
from jsa.data.splits import Splits
from jsa.data.table import SUFFIXES, TableOptions, table_splits
from jsa.errors import UsageError, unknown_name

BUILDERS: dict[str, Callable[[Path | None, int], Splits]] = {
    "mnist-threshold": lambda data_dir, seed: mnist_threshold(),
    "mnist-static": lambda data_dir, seed: mnist_static(),
    "mnist-dynamic": lambda data_dir, seed: mnist_dynamic(seed),
    "mnist-salakhutdinov": lambda data_dir, seed: mnist_salakhutdinov(data_dir),
    "fashion-mnist": lambda data_dir, seed: fashion_mnist(data_dir),
}
"""How each name of the catalogue is made, from the folder of data and the seed of the draws."""


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
    """The training, validation and test rows of a dataset.

    Args:
        name_or_path: A name of the catalogue, or the path of a .npy, .npz or .csv table.
        data_dir: The folder of files that the package does not carry; the variable JSA_DATA_DIR names
            another one to look into.
        valid_file: For a table: the validation rows, as another table.
        test_file: For a table: the test rows, as another table.
        valid_fraction: For a table without validation rows: how many of its rows become that.
        test_fraction: For a table without test rows: how many of its rows become that.
        split_seed: For a table: which of its rows are taken.
        classes: For a table: the number of values of a variable; None finds it.
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
    path = Path(name_or_path).expanduser()
    if path.suffix.lower() in SUFFIXES:
        return table_splits(path, options)
    if path.exists() or os.sep in name_or_path:
        raise UsageError(f"{path} is not a table: its name must end in {', '.join(SUFFIXES)}")
    raise unknown_name("dataset", name_or_path, names())


def _refuse_table_options(name: str, options: TableOptions) -> None:
    """Refuse what would silently have no effect: a named dataset comes with its splits."""
    plain = TableOptions()
    for option in ("valid_file", "test_file", "valid_fraction", "test_fraction", "split_seed"):
        if getattr(options, option) != getattr(plain, option):
            raise UsageError(f"{option} is for your own tables: {name} comes with its splits")
    if options.classes not in (None, 2):
        raise UsageError(f"classes is {options.classes}, but {name} is binary")
