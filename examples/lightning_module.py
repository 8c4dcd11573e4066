"""A LightningModule whose checkpoints hold the chains: it continues to the same weights and chains after a kill."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor
from torch.utils.data import DataLoader, Sampler, TensorDataset

from digits import BATCH_SIZE, digits, flags, learner_of_bits, tell
from jsa import Batch, Learner, numbered


class OrderOfEpoch(Sampler[int]):
    """An order of the rows that depends on the epoch alone; Lightning calls ``set_epoch`` before each epoch."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Shuffle anew."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.rows

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(self.rows, generator=torch.Generator().manual_seed(self.epoch))
        return iter(order.tolist())


class Digits(lightning.LightningModule):
    """The learner is a submodule, so that its state is part of every checkpoint."""

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        self.learner = learner

    def training_step(self, batch: Batch) -> Tensor:
        """Return the loss of the batch; Lightning does the rest."""
        # Lightning does not save random states, and starts its iterators at other times when it continues.
        torch.manual_seed(self.global_step)
        estimate = self.learner(batch)
        self.log("bound", estimate.objective, prog_bar=True, batch_size=len(batch))
        loss: Tensor = estimate.loss
        return loss

    def validation_step(self, batch: Batch) -> None:
        """Log the bound of validation rows. Lightning has set evaluation mode, in which no chain is touched."""
        self.log("validation_bound", self.learner(batch).objective, prog_bar=True, batch_size=len(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer of model and estimator."""
        return torch.optim.Adam(self.learner.parameters(), lr=1e-3)


def main(argv: Sequence[str] | None = None) -> None:
    """Train and print the validation NLL."""
    given = flags(__doc__, argv)
    lightning.seed_everything(0)
    images, valid = digits(given.rows)
    learner = learner_of_bits(given.rows, given.switch_after)
    order = OrderOfEpoch(given.rows)
    loader = DataLoader(numbered(TensorDataset(images)), BATCH_SIZE, sampler=order, collate_fn=Batch.collate)
    valid_loader = DataLoader(numbered(TensorDataset(valid)), BATCH_SIZE, collate_fn=Batch.collate)
    trainer = lightning.Trainer(
        max_epochs=given.epochs,
        devices=1,  # With several, Lightning deals out other rows than those of the chains.
        default_root_dir=given.out,
        logger=False,
        enable_model_summary=False,
        # At an epoch's end: in its middle, Lightning does not know which rows of it are done.
        callbacks=[ModelCheckpoint(given.out, "last", save_on_train_epoch_end=True, enable_version_counter=False)],
    )
    last = given.out / "last.ckpt"
    start = last if given.resume and last.exists() else None
    trainer.fit(Digits(learner), loader, valid_loader, ckpt_path=start, weights_only=True)
    tell(learner.model, valid)


if __name__ == "__main__":
    main()
