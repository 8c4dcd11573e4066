"""A training loop in plain torch that can be killed and continued to the same weights and chains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from digits import BATCH_SIZE, digits, flags, learner_of_bits, tell
from jsa import Batch, Learner, numbered


def save(path: Path, learner: Learner, optimizer: torch.optim.Optimizer, epochs: int) -> None:
    """Save what the next epoch depends on, so that a kill at any time leaves this file or the one before it."""
    state = {
        "learner": learner.state_dict(),  # weights and chains
        "optimizer": optimizer.state_dict(),
        "random": torch.get_rng_state(),  # shuffles the loader, and draws the proposals of the chains
        "epochs": epochs,
    }
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


def restore(path: Path, learner: Learner, optimizer: torch.optim.Optimizer) -> int:
    """Load what ``save`` saved and return the number of epochs that are done."""
    state = torch.load(path, weights_only=True)
    learner.load_state_dict(state["learner"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
    epochs: int = state["epochs"]
    return epochs


def train(learner: Learner, images: Tensor, epochs: int, out: Path, resume: bool) -> None:
    """Train for so many epochs, with a checkpoint after each."""
    loader = DataLoader(numbered(TensorDataset(images)), BATCH_SIZE, shuffle=True, collate_fn=Batch.collate)
    optimizer = torch.optim.Adam(learner.parameters(), lr=1e-3)
    path = out / "last.pt"
    done = restore(path, learner, optimizer) if resume and path.exists() else 0
    for epoch in range(done, epochs):
        bound = torch.zeros(())
        for batch in loader:
            estimate = learner(batch)
            optimizer.zero_grad()
            estimate.loss.backward()
            optimizer.step()
            bound += estimate.objective * len(batch) / len(images)
        save(path, learner, optimizer, epoch + 1)
        print(f"epoch {epoch + 1}: bound {bound:.2f}, now stage {learner.stage}", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Train and print the validation NLL."""
    given = flags(__doc__, argv)
    torch.manual_seed(0)
    images, valid = digits(given.rows)
    learner = learner_of_bits(given.rows, given.switch_after)
    train(learner, images, given.epochs, given.out, given.resume)
    tell(learner.model, valid)


if __name__ == "__main__":
    main()
