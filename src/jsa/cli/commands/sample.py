"""``jsa sample``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jsa.cli.arguments import RunPath, parse
from jsa.errors import UsageError


@dataclass(frozen=True)
class SampleArguments:
    """Draw from a trained model: h from its prior, then the mean of p(x | h)."""

    run: RunPath
    """The run folder."""
    out: Path | None = None
    """A .png picture, or a .npz file with the latent states, the means and binary or class draws; samples-SEED.png in
    the run folder where not given."""
    count: int = 100
    """How many samples. A conditional model draws one for each of the first validation rows."""
    seed: int = 0
    """Seed of the draws."""
    checkpoint: Literal["best", "last"] = "best"
    """Which weights."""
    data_dir: Path | None = None
    """Where the data is, if not where the run had it."""


def run(arguments: Sequence[str]) -> None:
    """Draws as the arguments say."""
    parsed = parse(SampleArguments, "sample", arguments)
    if parsed.count < 1:
        raise UsageError(f"count is 1 or more, not {parsed.count}")
    out = parsed.out or parsed.run / f"samples-{parsed.seed}.png"
    if out.suffix not in (".png", ".npz"):
        raise UsageError(f"{out} must end in .png for a picture or .npz for numbers")

    import torch

    from jsa.assembly import open_run
    from jsa.pictures import contexts_of, sample_rows, save_grid

    opened = open_run(parsed.run, parsed.checkpoint, parsed.data_dir)
    contexts = contexts_of(opened.splits.valid, parsed.count)
    h, means = sample_rows(opened.model, parsed.count, parsed.seed, contexts)
    if out.suffix == ".png":
        save_grid(out, means, opened.splits.image_shape, opened.splits.classes)
    else:
        import numpy as np

        from jsa.files import replacing

        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(parsed.seed + 1)
            draws = opened.model.observation(h, contexts).sample()
        with replacing(out) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, h=h.numpy(), mean=means.numpy(), x=draws.numpy().astype(np.uint8))
    print(f"{len(means)} samples in {out}")
