"""How many states pass through the joint density of a model: what a method costs, whatever the machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor

from jsa.model import LatentVariableModel, LayeredJoint
from jsa.types import Batch


@dataclass
class Counter:
    """The states that were counted, each row of a batch for itself."""

    states: int = 0


@contextmanager
def counting(model: LatentVariableModel) -> Iterator[Counter]:
    """Counts the states that pass through the joint density, by whichever of its methods the others call."""
    counter = Counter()
    name = "log_joint_terms" if isinstance(model, LayeredJoint) else "log_joint"
    original = getattr(model, name)

    def counted(batch: Batch, h: Tensor) -> object:
        counter.states += h.shape[:-1].numel()
        return original(batch, h)

    setattr(model, name, counted)
    try:
        yield counter
    finally:
        delattr(model, name)
