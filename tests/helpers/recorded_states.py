"""Which states a decoder is asked for."""

from __future__ import annotations

import torch
from torch import Tensor

from jsa import Batch, LatentVariableModel


def recorded_states(model: LatentVariableModel) -> list[tuple[Tensor, bool]]:
    """Return a list that fills with the states that the decoder is given from now on, and whether with a graph."""
    seen: list[tuple[Tensor, bool]] = []
    log_joint = model.log_joint

    def recording(batch: Batch, h: Tensor) -> Tensor:
        seen.append((h.detach(), torch.is_grad_enabled()))
        return log_joint(batch, h)

    model.log_joint = recording  # type: ignore[method-assign]
    return seen
