"""``jsa sample``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from jsa.cli.arguments import RunArguments, parse
from jsa.io.atomic_files import check_destination, write_arrays, write_bytes
from jsa.ranges import whole


@dataclass(frozen=True)
class SampleArguments(RunArguments):
    """Draw samples from a trained model: h from the prior, then x from p(x | h)."""

    out: Path | None = None
    """The output file: a .png picture of the means of p(x | h), a .csv table of draws of x, or a .npz file of both with
    the latent states h and, for conditional models, the context. If not given: samples-SEED.png in the run folder, or
    samples-SEED.csv when rows are not images."""
    count: Annotated[int, whole(1)] = 100
    """The number of samples. A conditional model draws one for each of as many validation rows, spread evenly."""


def run(arguments: Sequence[str]) -> None:
    """Run ``jsa sample``."""
    parsed = parse(SampleArguments, "sample", arguments)
    if parsed.out is not None:
        check_destination(parsed.out, "--out", png="a picture", csv="a table", npz="arrays")

    from jsa.data.schema import written_columns
    from jsa.evaluation.ancestral_samples import contexts_of, sample
    from jsa.runs.cost import cost_at
    from jsa.runs.feasibility import refuse_beyond_memory

    opened = parsed.open()
    shape = opened.schema
    out = parsed.out or parsed.run / f"samples-{parsed.seed}.{'csv' if shape.image_shape is None else 'png'}"
    contexts = contexts_of(opened.splits.valid, parsed.count) if shape.context_columns else None
    if contexts is None:
        # Beside the samples, what is written of them is in memory once more.
        needed = 2 * cost_at(parsed.count, lambda count: sample(opened.model, count), 100).bytes
        refuse_beyond_memory(needed, f"a draw of {parsed.count:,} samples", "lower --count")
    samples = sample(opened.model, parsed.count, parsed.seed, contexts, image_shape=shape.image_shape)
    if out.suffix == ".png":
        write_bytes(out, samples.png())
    elif out.suffix == ".csv":
        write_arrays(out, written_columns(shape, samples.rows.numpy()))
    else:
        write_arrays(out, samples.arrays(opened.model.latent))
    print(f"{len(samples.h)} samples in {out}")
