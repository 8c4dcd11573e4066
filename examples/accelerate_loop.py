"""A loop of Hugging Face accelerate that can be killed and continued to the same weights and chains."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

from digits import BATCH_SIZE, digits, flags, learner_of_bits, tell
from jsa import Batch, numbered


def save(accelerator: Accelerator, out: Path, epochs: int) -> None:
    """Save a folder for these epochs, which gets its name when it is complete, and remove the one before it."""
    partial = out / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    accelerator.save_state(str(partial))
    partial.rename(out / f"epochs-{epochs}")
    shutil.rmtree(out / f"epochs-{epochs - 1}", ignore_errors=True)


def epochs_done(out: Path) -> int:
    """Return the number of epochs of the last complete folder, 0 without one."""
    return max((int(folder.name.removeprefix("epochs-")) for folder in out.glob("epochs-*")), default=0)


def main(argv: Sequence[str] | None = None) -> None:
    """Train and print the validation NLL."""
    given = flags(__doc__, argv)
    set_seed(0)
    images, valid = digits(given.rows)
    learner = learner_of_bits(given.rows, given.switch_after)
    accelerator = Accelerator()
    if accelerator.num_processes > 1:
        raise SystemExit("run this in one process: among several, accelerate deals out the rows anew")
    optimizer = torch.optim.Adam(learner.parameters(), lr=1e-3)
    loader = DataLoader(numbered(TensorDataset(images)), BATCH_SIZE, shuffle=True, collate_fn=Batch.collate)
    wrapped, optimizer, loader = accelerator.prepare(learner, optimizer, loader)
    done = epochs_done(given.out) if given.resume else 0
    if done:
        # Weights and chains, the optimizer, and the random states that shuffle and draw.
        accelerator.load_state(str(given.out / f"epochs-{done}"))
    for epoch in range(done, given.epochs):
        bound = torch.zeros((), device=accelerator.device)
        for batch in loader:
            estimate = wrapped(batch)
            optimizer.zero_grad()
            accelerator.backward(estimate.loss)
            optimizer.step()
            bound += estimate.objective * len(batch) / len(images)
        save(accelerator, given.out, epoch + 1)
        accelerator.print(f"epoch {epoch + 1}: bound {bound:.2f}, now stage {learner.stage}", flush=True)
    tell(learner.model, valid)


if __name__ == "__main__":
    main()
