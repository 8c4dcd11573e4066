"""An analyst's table of their own, and what they ask of its run."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import torch

from helpers.terminal import run_jsa
from jsa.data import Conditioned, IndexedDataset, Splits
from jsa.data.tables.table import TableOptions, table_splits
from jsa.front.run import open_run

SIZES = "--model linear --latents 3 --epochs 2 --learning-rate 0.02 --threads 1 "
SIZES += "--validation-samples 5 --test-samples 5"


def spelled(rows: int, start: int = 0, columns: int = 12) -> np.ndarray:
    """Rows that spell their own number in binary."""
    return (np.arange(start, start + rows)[:, None] >> np.arange(columns)) & 1


def write(path: Path, text: str | bytes) -> Path:
    """Write a file, text in UTF-8."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def save(path: Path | str, values: np.ndarray, header: str = "") -> Path:
    """Write a table in the way of its ending, with its gaps left blank."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, values)
    elif path.suffix == ".npz":
        np.savez(path, values)
    else:
        lines = [",".join("" if np.isnan(value) else f"{value:g}" for value in row) for row in values]
        path.write_text("\n".join([*([header] if header else []), *lines, ""]))
    return path


def read(path: Path | str) -> tuple[list[str], np.ndarray]:
    """The names and the cells of a table."""
    with Path(path).open(newline="") as file:
        names, *rows = csv.reader(file)
    return names, np.array(rows)


def loaded(values: np.ndarray, options: TableOptions | None = None) -> Splits:
    """The splits of values in a file ``table.npy`` of the working folder."""
    return table_splits(save("table.npy", values), options or TableOptions())


COMMANDS = (
    *("evaluate run --samples 5", "encode run", "describe run --rows 10", "sample run --count 3"),
    "variance run --estimators rloo --draws 20 --rows 10",
)
"""Everything that is asked of a run."""


def arrays_of(command: str) -> dict[str, np.ndarray]:
    """The arrays that a command writes."""
    run_jsa(command, "--out arrays.npz")
    with np.load("arrays.npz") as file:
        return dict(file)


def means_of(values: np.ndarray) -> np.ndarray:
    """What the inference model of the run says about rows."""
    opened = open_run(Path("run"))
    whole = IndexedDataset(torch.from_numpy(values.astype(np.uint8)), opened.schema.conditioned(0))
    rows = Conditioned(whole, context) if (context := opened.schema.context_columns) else whole
    posterior: Any = opened.model.posterior(rows.batch(torch.arange(len(rows))))
    found: np.ndarray = posterior.first.mean.detach().numpy()
    return found
