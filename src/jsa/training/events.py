"""TensorBoard events beside the metrics, where that extra is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class Events:
    """Writes the figures of each epoch for TensorBoard, or nothing where it is not installed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: SummaryWriter | None = None

    def start(self, epoch: int) -> None:
        """Opens a file of events; those of a run that is continued are hidden from this epoch on."""
        if importlib.util.find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self._folder), purge_step=epoch if epoch > 1 else None)

    def epoch(self, record: Mapping[str, object]) -> None:
        """Adds the numbers of an epoch."""
        if self._writer is not None:
            for name, value in record.items():
                if isinstance(value, int | float) and name != "epoch":
                    self._writer.add_scalar(name, value, int(str(record["epoch"])))

    def close(self) -> None:
        """Flushes what was written."""
        if self._writer is not None:
            self._writer.close()
