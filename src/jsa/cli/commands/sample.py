"""``jsa sample``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jsa.cli.arguments import RunArguments, parse
from jsa.errors import UsageError, check_at_least
from jsa.files import check_destination, write_arrays

if TYPE_CHECKING:
    from torch import Tensor

    from jsa.assembly import Model


@dataclass(frozen=True)
class SampleArguments(RunArguments):
    """Draw from a trained model: h from its prior, then the mean of p(x | h)."""

    out: Path | None = None
    """A .png picture, or a .npz file with latent states h, the mean of p(x | h), a draw x from it and, for conditional
    models, the context, classes as their numbers; samples-SEED.png in the run folder where not given."""
    count: int = 100
    """How many samples. A conditional model draws one for each of the first validation rows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, count=self.count)


def run(arguments: Sequence[str]) -> None:
    """Draws as the arguments say."""
    parsed = parse(SampleArguments, "sample", arguments)
    out = parsed.out or parsed.run / f"samples-{parsed.seed}.png"
    if out.suffix not in (".png", ".npz"):
        raise UsageError(f"{out} must end in .png for a picture or .npz for numbers")

    if parsed.out is not None:
        check_destination(parsed.out, "--out")

    from jsa.pictures import contexts_of, sample_rows, save_grid

    opened = parsed.open()
    contexts = contexts_of(opened.splits.valid, parsed.count) if opened.shape.context_columns else None
    h, means = sample_rows(opened.model, parsed.count, parsed.seed, contexts)
    if out.suffix == ".png":
        save_grid(out, means, opened.shape.image_shape, opened.shape.classes)
    else:
        _save_numbers(out, opened.model, h, contexts, parsed.seed)
    print(f"{len(means)} samples in {out}")


def _save_numbers(out: Path, model: Model, h: Tensor, contexts: Tensor | None, seed: int) -> None:
    """Writes states, means of what is observed, draws from it and contexts, as ``jsa encode`` writes them."""
    import torch

    from jsa.encoding import compact
    from jsa.latent import LatentSpace, Layer

    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(seed + 1)
        observed = model.observation(h, contexts)
        draws = observed.sample()
    layer = observed.layer
    arrays = {
        "h": compact(model.latent, h),
        "mean": observed.mean.detach(),
        "x": compact(LatentSpace.of(layer), draws),
    }
    if contexts is not None:
        width = layer.width // layer.variables
        given = Layer(layer.kind, contexts.shape[-1] // width, layer.classes)
        arrays["context"] = compact(LatentSpace.of(given), contexts)
    write_arrays(out, arrays)
