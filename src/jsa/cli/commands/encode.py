"""``jsa encode``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jsa.cli.arguments import RunArguments, parse, refuse_split_of_other_data
from jsa.io.atomic_files import check_destination, write_arrays

if TYPE_CHECKING:
    from jsa.data import Dataset, Splits


@dataclass(frozen=True)
class EncodeArguments(RunArguments):
    """Compute the latent codes of a dataset: for each row the mean of q(h | x), a draw from it, and the row number."""

    out: Path | None = None
    """The output file, .npz or .csv. If not given: codes-SPLIT.npz or codes-FILE.npz in the run folder."""
    split: Literal["train", "valid", "test", "all"] = "test"
    """The rows of the run's data to encode."""
    data: Path | None = None
    """Encode all rows of this table instead. Its columns must be those of the run's data."""


def run(arguments: Sequence[str]) -> None:
    """Run ``jsa encode``."""
    parsed = parse(EncodeArguments, "encode", arguments)
    refuse_split_of_other_data(parsed.data, parsed.split)
    out = parsed.out or parsed.run / f"codes-{parsed.split if parsed.data is None else parsed.data.name}.npz"
    if parsed.out is not None:
        check_destination(parsed.out, "--out", npz="arrays", csv="a table")

    import numpy as np

    from jsa.data.tables.table import read_table
    from jsa.evaluation.codes import encode
    from jsa.evaluation.rows import Joined
    from jsa.training.progress import evaluation_progress

    opened = parsed.open()
    order: Any = slice(None)
    if parsed.data is None:
        parts, arrays, order = _rows_of_run(opened.splits, parsed.split)
    else:
        parts = [read_table(parsed.data, opened.schema)]
        arrays = {"rows": np.arange(len(parts[0]))}
    labels = [rows.labels for rows in parts if rows.labels is not None]
    if len(labels) == len(parts):
        arrays["labels"] = np.concatenate(labels)
    with evaluation_progress(sum(map(len, parts)), "rows") as progress:
        codes = encode(opened.model, Joined(parts), parsed.seed, progress=progress)
    arrays |= {"h": codes.states.numpy()} | ({} if codes.means is None else {"mean": codes.means.numpy()})
    write_arrays(out, {name: array[order] for name, array in arrays.items()})
    alone = " (draws alone: q(h | x) of this model has no mean)" if codes.means is None else ""
    print(f"{len(codes.states)} codes of {codes.states.shape[1]} values in {out}{alone}")


def _rows_of_run(splits: Splits, split: str) -> tuple[list[Dataset], dict[str, Any], Any]:
    """Return the parts of the data that were asked for, what is known of their rows, and the order to write them in."""
    import numpy as np

    from jsa.data.splits import PARTS

    names = PARTS if split == "all" else (split,)
    parts = [splits.parts[name] for name in names]
    rows = np.concatenate([splits.row_numbers(name) for name in names])
    known: dict[str, Any] = {"rows": rows}
    if split == "all":
        known["split"] = np.repeat(np.array(names), [len(part) for part in parts])
    return parts, known, np.argsort(rows) if splits.of_one_table else slice(None)
