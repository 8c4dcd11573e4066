"""``jsa sample``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jsa.cli.arguments import RunArguments, at_least_one, parse
from jsa.errors import UsageError
from jsa.files import check_destination, replacing


@dataclass(frozen=True)
class SampleArguments(RunArguments):
    """Draw from a trained model: h from its prior, then the mean of p(x | h)."""

    out: Path | None = None
    """A .png picture, or a .npz file with the latent states, the means and binary or class draws; samples-SEED.png in
    the run folder where not given."""
    count: int = 100
    """How many samples. A conditional model draws one for each of the first validation rows."""


def run(arguments: Sequence[str]) -> None:
    """Draws as the arguments say."""
    parsed = parse(SampleArguments, "sample", arguments)
    at_least_one("count", parsed.count)
    out = parsed.out or parsed.run / f"samples-{parsed.seed}.png"
    if out.suffix not in (".png", ".npz"):
        raise UsageError(f"{out} must end in .png for a picture or .npz for numbers")

    if parsed.out is not None:
        check_destination(parsed.out, "--out")

    import torch

    from jsa.pictures import contexts_of, sample_rows, save_grid

    opened = parsed.open()
    contexts = contexts_of(opened.splits.valid, parsed.count)
    h, means = sample_rows(opened.model, parsed.count, parsed.seed, contexts)
    if out.suffix == ".png":
        save_grid(out, means, opened.splits.image_shape, opened.splits.classes)
    else:
        import numpy as np

        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(parsed.seed + 1)
            draws = opened.model.observation(h, contexts).sample()
        with replacing(out) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, h=h.numpy(), mean=means.numpy(), x=draws.numpy().astype(np.uint8))
    print(f"{len(means)} samples in {out}")
