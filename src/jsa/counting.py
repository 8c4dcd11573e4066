"""How many states pass through the joint density of a model: what a method costs, whatever the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from jsa.model import LatentVariableModel, LayeredJoint
from jsa.types import Batch


@dataclass
class Counter:
    """The states that were counted, each row of a batch for itself.

    Attributes:
        within: Whether a call is under way, inside which calls of the other methods count no more.
    """

    states: int = 0
    within: bool = False


@contextmanager
def counting(model: LatentVariableModel) -> Iterator[Counter]:
    """Counts the states that pass through the joint density, by whichever of its methods the others call."""
    counter = Counter()
    names = ["log_joint", "log_joint_terms"] if isinstance(model, LayeredJoint) else ["log_joint"]
    # A model may have a method of its own, such as a compiled one, in the place of that of its class.
    own = {name: vars(model)[name] for name in names if name in vars(model)}
    for name in names:
        setattr(model, name, _counted(getattr(model, name), counter))
    try:
        yield counter
    finally:
        for name in names:
            delattr(model, name)
        for name, method in own.items():
            setattr(model, name, method)


def _counted(method: Callable[[Batch, Tensor], Any], counter: Counter) -> Callable[[Batch, Tensor], Any]:
    def counted(batch: Batch, h: Tensor) -> Any:
        if counter.within:
            return method(batch, h)
        counter.states += h.shape[:-1].numel()
        counter.within = True
        try:
            return method(batch, h)
        finally:
            counter.within = False

    return counted
