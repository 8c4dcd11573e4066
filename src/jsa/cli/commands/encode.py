"""``jsa encode``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jsa.cli.arguments import RunArguments, parse
from jsa.errors import UsageError


@dataclass(frozen=True)
class EncodeArguments(RunArguments):
    """The latent codes of a dataset: the mean of q(h | x) and a draw from it, row by row."""

    out: Path | None = None
    """The .npz file; codes-SPLIT.npz in the run folder where not given."""
    split: Literal["train", "valid", "test"] = "test"
    """Which rows of the run's data."""


def run(arguments: Sequence[str]) -> None:
    """Encodes as the arguments say."""
    parsed = parse(EncodeArguments, "encode", arguments)
    out = parsed.out or parsed.run / f"codes-{parsed.split}.npz"
    if out.suffix != ".npz":
        raise UsageError(f"{out} must end in .npz")

    import numpy as np

    from jsa.encoding import encode
    from jsa.files import replacing

    opened = parsed.open()
    rows = getattr(opened.splits, parsed.split)
    codes = encode(opened.model, rows, parsed.seed)
    labels = {} if rows.labels is None else {"labels": rows.labels.numpy()}
    with replacing(out) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, h=codes.states, mean=codes.means, **labels)
    print(f"{len(codes.states)} codes of {codes.states.shape[1]} values in {out}")
