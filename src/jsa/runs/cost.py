"""The memory and time that some work takes, from measuring small parts of it.

Memory grows with the number of states that are evaluated together, and time with the number of all. So small parts give
both at full size for any model and method, and nothing is known here of layers or of what a method computes.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from jsa.estimators import Enumeration, Estimator
from jsa.evaluation.rows import Rows, Subset, states_in_chunk
from jsa.io.memory import lack_of_room
from jsa.latent import ENUMERATION_LIMIT, LatentSpace
from jsa.model import LatentVariableModel
from jsa.torch_contexts import leaving_no_trace

SLOW_SECONDS = 60.0
"""Work that takes longer is announced, and measured with more care."""

BENDS_FROM = 1.5
"""How much steeper the larger sizes must be for a parabola: some methods compare all particles with each other."""

_NUMBERS_MEASURED = 1 << 20  # in the widest tensor of a small part
_STATES_MEASURED = 1 << 10  # enough that a step of them is not all overhead


@dataclass(frozen=True)
class Cost:
    """The bytes that some work has at once at the most, and the seconds that it takes."""

    bytes: float
    seconds: float


def cost(work: Callable[[], object]) -> Cost:
    """Do some work twice, and return what it takes."""
    with _LiveTensors() as tensors:
        work()
    # Timed the second time, when all that is loaded at first use has been.
    began = time.perf_counter()
    work()
    return Cost(tensors.most, time.perf_counter() - began)


def cost_at(size: int, work: Callable[[int], object], small: int, *, bends: bool = False) -> Cost:
    """Return the cost of work of a size, which is done at small sizes if it is larger than they are.

    Args:
        size: The size.
        work: The work of a given size.
        small: The smallest size, of three that double.
        bends: Whether the bytes may be on a parabola through all three, if these clearly bend up. Otherwise they are on
            the line through the larger two.

    Example:
        >>> taken = cost_at(10**9, torch.zeros, small=1000)
        >>> round(taken.bytes / 1e9)
        4
    """
    if size <= 4 * small:
        return cost(partial(work, size))
    one, two, four = (cost(partial(work, times * small)) for times in (1, 2, 4))
    first, slope = (two.bytes - one.bytes) / small, max(0.0, four.bytes - two.bytes) / (2 * small)
    bend = (slope - first) / (3 * small) if bends and slope > BENDS_FROM * max(0.0, first) else 0.0
    needed = four.bytes + (size - 4 * small) * (slope + bend * (size - 2 * small))
    seconds = four.seconds * size / (4 * small)
    if seconds > SLOW_SECONDS and lack_of_room(needed) is None:
        # Small tensors stay in the processor's cache, where a state takes less time than in a large step.
        larger = min(size, 16 * small)
        seconds = cost(partial(work, larger)).seconds * size / larger
    return Cost(needed, seconds)


def step_cost(
    model: LatentVariableModel, build: Callable[[int | None], Estimator], rows: Rows, batch_size: int
) -> Cost:
    """Return the cost of a step of training. It changes neither the model nor anything random.

    Whatever the method refuses is refused here, by the small steps.

    Args:
        model: The model.
        build: Makes the estimator with so many particles, or as it is configured for None.
        rows: The training rows.
        batch_size: The rows of a step.
    """
    # An estimator with networks draws when it is made, too.
    with leaving_no_trace(model, _device(model)), torch.enable_grad():
        return _step_cost(model, build, rows, min(batch_size, len(rows)))


def _step_cost(model: LatentVariableModel, build: Callable[[int | None], Estimator], rows: Rows, together: int) -> Cost:
    estimator = build(None)
    enumerated = isinstance(estimator, Enumeration)
    particles = _count(model.latent) if enumerated else getattr(estimator, "particles", 1)

    def step(some: int, states: int) -> None:
        made = estimator if states == particles or enumerated else build(states)
        seen: Any = _FirstStates(model, states) if enumerated else model
        made.eval()(seen, rows.batch(torch.arange(some), _device(model))).loss.backward()
        model.zero_grad()

    # A method without particles may evaluate any number of states for a row.
    small = _states_measured(model) if enumerated or hasattr(estimator, "particles") else 1
    if particles <= 4 * small:
        found = cost_at(together, lambda some: step(some, particles), max(1, small // particles))
    else:
        row = cost_at(particles, partial(step, 1), small, bends=not enumerated)
        found = Cost(together * row.bytes, together * row.seconds)
    listed = _bytes_of_list(model.latent) if enumerated else 0.0
    return Cost(found.bytes + listed, found.seconds)


def rows_cost(rows: Rows, samples: int, work: Callable[[Rows, int], object]) -> Cost:
    """Return the cost of work with rows and samples of each, some thousand of which are evaluated at a time.

    Args:
        rows: The rows.
        samples: The samples of each row.
        work: The work with given rows and samples.
    """
    at_once = states_in_chunk(rows)
    together = min(samples, at_once)
    some = Subset.spread(rows, max(1, at_once // together))
    chunk = cost(lambda: work(some, together))
    seconds = chunk.seconds * len(rows) / len(some) * samples / together
    if samples <= 8 * at_once:
        return Cost(chunk.bytes, seconds)
    # With many samples, what is kept of each of them outgrows what a chunk takes.
    one = Subset.spread(rows, 1)
    return Cost(cost_at(samples, lambda count: work(one, count), 2 * at_once).bytes, seconds)


def enumeration_cost(model: LatentVariableModel, rows: Rows, work: Callable[[Any, Rows], object]) -> Cost:
    """Return the cost of work with rows and a model that goes through all latent states for each row."""
    one, at_once = Subset.spread(rows, 1), states_in_chunk(rows)
    row = cost_at(_count(model.latent), lambda count: work(_FirstStates(model, count), one), 2 * at_once)
    return Cost(row.bytes + _bytes_of_list(model.latent), row.seconds * len(rows))


class _LiveTensors(TorchDispatchMode):
    """Counts the bytes of the tensors that operations return until they are freed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = self._alive = 0
        self._known: set[int] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # To skip the compiler, torch would import it first, which takes seconds.
        return False

    def __torch_dispatch__(
        self,
        operation: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        found = operation(*args, **(kwargs or {}))
        given = {id(storage) for storage in _storages((args, kwargs))}
        for storage in _storages(found):
            # Views share the storage of what they view.
            if id(storage) not in given | self._known:
                self._known.add(id(storage))
                self._alive += storage.nbytes()
                weakref.finalize(storage, self._forget, id(storage), storage.nbytes())
        self.most = max(self.most, self._alive)
        return found

    def _forget(self, name: int, size: int) -> None:
        self._known.discard(name)
        self._alive -= size


def _storages(values: object) -> list[torch.UntypedStorage]:
    return [leaf.untyped_storage() for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


class _FirstStates:
    """A model whose latent space has as many states as are to be measured, all of them zeros."""

    def __init__(self, model: LatentVariableModel, count: int) -> None:
        self._model = model
        self.latent = _Shortened(model.latent.layers, count)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


@dataclass(frozen=True)
class _Shortened(LatentSpace):
    """A latent space of which only some states are enumerated."""

    enumerated: int

    def enumerate(self, dtype: torch.dtype = torch.float32, device: torch.device | None = None) -> Tensor:
        return torch.zeros(self.enumerated, self.width, dtype=dtype, device=device)


def _count(latent: LatentSpace) -> int:
    """Return the number of states of a latent space, or let it refuse to be enumerated."""
    if latent.states > ENUMERATION_LIMIT:
        latent.enumerate()
    return int(latent.states)


def _bytes_of_list(latent: LatentSpace) -> float:
    """Return the bytes of the list of all states, a tuple each, from which their tensor is made."""
    return latent.states * (sys.getsizeof((0.0,) * latent.width) + sys.getsizeof([None]) - sys.getsizeof([]))


def _states_measured(model: LatentVariableModel) -> int:
    widest = max((size for parameter in model.parameters() for size in parameter.shape), default=1)
    return max(16, min(_STATES_MEASURED, _NUMBERS_MEASURED // widest))


def _device(model: LatentVariableModel) -> torch.device:
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
