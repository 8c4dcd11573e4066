"""``jsa encode``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jsa.cli.arguments import RunArguments, parse, refuse_split_of_other_data
from jsa.io.atomic_files import check_destination, write_arrays


@dataclass(frozen=True)
class EncodeArguments(RunArguments):
    """The latent codes of a dataset: the mean of q(h | x) and a draw from it, row by row, with the rows' numbers."""

    out: Path | None = None
    """A .npz file of arrays, or a .csv table; codes-SPLIT.npz or codes-FILE.npz in the run folder where not given."""
    split: Literal["train", "valid", "test", "all"] = "test"
    """Which rows of the run's data; all of one table come in its order."""
    data: Path | None = None
    """Encode all rows of this table instead; it has the columns of the run's data."""


def run(arguments: Sequence[str]) -> None:
    """Encodes as the arguments say."""
    parsed = parse(EncodeArguments, "encode", arguments)
    refuse_split_of_other_data(parsed.data, parsed.split)
    out = parsed.out or parsed.run / f"codes-{parsed.split if parsed.data is None else parsed.data.name}.npz"
    if parsed.out is not None:
        check_destination(parsed.out, "--out", npz="arrays", csv="a table")

    from jsa.data.splits import PARTS
    from jsa.data.tables.table import read_table
    from jsa.evaluation.codes import encode, encode_splits

    opened = parsed.open()
    if parsed.data is None:
        parts = PARTS if parsed.split == "all" else (parsed.split,)
        codes = encode_splits(opened.model, opened.splits, parts, parsed.seed)
    else:
        codes = encode(opened.model, read_table(parsed.data, opened.shape), parsed.seed)
    arrays: dict[str, Any] = {"rows": codes.rows}
    if parsed.split == "all":
        arrays["split"] = codes.parts
    if codes.labels is not None:
        arrays["labels"] = codes.labels
    write_arrays(out, {**arrays, "h": codes.states, "mean": codes.means})
    print(f"{len(codes.states)} codes of {codes.states.shape[1]} values in {out}")
