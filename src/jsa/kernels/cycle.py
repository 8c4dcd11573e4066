"""Several kernels one after the other."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from jsa.errors import UsageError
from jsa.kernels.base import Kernel
from jsa.kernels.target import Start, Target
from jsa.kernels.trajectory import Trajectory, one_after_another


class Cycle(Kernel):
    """Move once by each of these kernels, in this order.

    It leaves the target invariant as they do, but is not reversible.

    Args:
        kernels: The kernels.

    Example:
        >>> from jsa.kernels import Block, Independence, MetropolisHastings, Repeat
        >>> Cycle(MetropolisHastings(Independence()), Repeat(MetropolisHastings(Block()), 4))
        Cycle(MetropolisHastings(Independence()), Repeat(MetropolisHastings(Block(size=0.05)), 4))
    """

    def __init__(self, *kernels: Kernel) -> None:
        super().__init__()
        if not kernels:
            raise UsageError("a Cycle needs one kernel or more: give Cycle(first, second)")
        # torch does not tell the type of what a list of modules holds.
        self.kernels: Any = nn.ModuleList(kernels)
        self.independent = all(kernel.independent for kernel in kernels)
        self.proposals = sum(kernel.proposals for kernel in kernels)

    def __repr__(self) -> str:
        return f"Cycle({', '.join(map(repr, self.kernels))})"

    def move(self, target: Target, chains: Start = None, times: int = 1, *, adapt: bool = False) -> Trajectory:
        moves = [partial(kernel.move, target, adapt=adapt) for kernel in self.kernels]
        return one_after_another(moves * times, chains)
